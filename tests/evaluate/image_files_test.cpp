// retina-eval --images: a folder, some of whose files are damaged or no images at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/checkpoint/checkpoint.h"
#include "shared/coco/instances.h"
#include "shared/coco/results.h"
#include "shared/image/jpeg.h"
#include "shared/onnx/onnx_session.h"
#include "shared/shard/shard_set.h"
#include "tests/evaluate/tiny_model_command.h"
#include "tests/support/images/images.h"

namespace retina {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

constexpr int kGoodCount = 24, kBadCount = 9;

// Good ones in every format and some of equal sizes, in folders and under odd names; bad ones of
// every kind. Returns the bad ones' names.
std::vector<std::string> write_mixed_folder(const std::string& folder) {
  const auto write = [&](const std::string& name, const std::string& bytes) {
    fs::create_directories(fs::path(folder + "/" + name).parent_path());
    write_file_atomically(folder + "/" + name, bytes);
  };
  for (int i = 0; i < kGoodCount - 4; ++i) {
    const Image image = colourful(60 + 20 * (i % 3), 60 + 15 * (i % 4));
    const std::string bytes = i % 3 == 0   ? encode_jpeg(image, 90)
                              : i % 3 == 1 ? encode_png(image)
                                           : encode_webp(image);
    write(cat(i % 2 == 0 ? "" : "sub/deep er/", "image", i, ".jpg"), bytes);
  }
  const Image image = colourful(70, 60);
  write("\xC3\xA9t\xC3\xA9 \xE2\x98\x80.png", encode_png(image));
  write("a/b.c/no extension", encode_jpeg(image, 80));
  write("sub/\xFF.webp", encode_lossy_webp(image, 80));
  write("An image", encode_tiff(image));
  write(".hidden", encode_webp(image));
  write("sub/._image1.jpg", "macOS leaves it");

  const std::string png = encode_png(image), jpeg = encode_jpeg(image, 80);
  write("bad/cut.png", png.substr(0, png.size() / 2));
  write("bad/cut.jpg", jpeg.substr(0, jpeg.size() * 2 / 3));
  write("bad/cut.webp", encode_webp(image).substr(0, 200));
  std::string flipped = png;
  flipped[png.size() / 2] = static_cast<char>(flipped[png.size() / 2] ^ 4);
  write("bad/flipped.png", flipped);
  write("bad/text.jpg", "no image\n");
  write("bad/empty.png", "");
  write("Notes.db", std::string(100, '\0'));
  write("Thumbs.db", "Windows leaves it");
  fs::create_symlink("nowhere", folder + "/bad/link\n.jpg");
  EXPECT_EQ(::mkfifo((folder + "/bad/pipe.jpg").c_str(), 0600), 0);
  fs::create_directory(folder + "/folder.jpg");
  fs::create_directory_symlink(folder, folder + "/sub/circle");
  return {"Notes.db",        "bad/cut.jpg",    "bad/cut.png",  "bad/cut.webp", "bad/empty.png",
          "bad/flipped.png", "bad/link\n.jpg", "bad/pipe.jpg", "bad/text.jpg"};
}

class FoundImages : public TinyModelCommand {
 protected:
  static void SetUpTestSuite() {
    TinyModelCommand::SetUpTestSuite();
    bad_ = new std::vector<std::string>(write_mixed_folder(*shared_ / "mixed"));
  }
  static void TearDownTestSuite() {
    delete bad_;
    TinyModelCommand::TearDownTestSuite();
  }

  std::vector<std::string> command(const std::string& output,
                                   const std::vector<std::string>& more = {}) const {
    return command_on({"--images", images_}, output, more);
  }

  static inline std::vector<std::string>* bad_ = nullptr;
  std::string images_ = *shared_ / "mixed";
};

TEST_F(FoundImages, AllThatCanBeUsedAreDetectedOnAndTheOthersNamed) {
  const ProcessResult result =
      run_process(command("out", {"--draw", "5,score=0", "--images-per-batch", "3"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr(cat(" on ", kGoodCount, " images")));

  // images.json lists the images by name with ids from 1 on; detections are on them.
  const Instances images = read_instances(folder_ / "out/images.json");
  ASSERT_EQ(images.images.size(), 0U + kGoodCount);
  EXPECT_EQ(images.categories.size(), 3U);
  EXPECT_TRUE(images.annotations.empty());
  for (std::size_t i = 0; i < images.images.size(); ++i) {
    EXPECT_EQ(images.images[i].id, static_cast<std::int64_t>(i) + 1);
  }
  EXPECT_EQ(images.images[0].file_name, "An image");
  EXPECT_EQ(images.images[1].file_name, "a/b.c/no extension");
  EXPECT_EQ(images.images[22].file_name, "sub/\\xff.webp") << "JSON holds UTF-8 only";
  EXPECT_EQ(images.images[23].file_name, "\xC3\xA9t\xC3\xA9 \xE2\x98\x80.png");
  std::set<std::int64_t> ids;
  for (const Detection& one : read_results(folder_ / "out/detections.json")) {
    ASSERT_TRUE(one.image_id >= 1 && one.image_id <= kGoodCount);
    const ImageInfo& image = images.images[static_cast<std::size_t>(one.image_id) - 1];
    EXPECT_LE(one.bbox[0] + one.bbox[2], image.width + 0.01);
    ids.insert(one.image_id);
  }
  EXPECT_EQ(ids.size(), 0U + kGoodCount);

  const JsonFile left_out = JsonFile::read(folder_ / "out/left_out.json");
  ASSERT_EQ(left_out.root().size(), 0U + kBadCount);
  for (std::size_t i = 0; i < bad_->size(); ++i) {
    const JsonView entry = left_out.root().at(i);
    EXPECT_EQ(entry.at("file_name").as_string(), (*bad_)[i]);
    EXPECT_NE(entry.at("reason").as_string(), "");
  }
  EXPECT_THAT(result.err, HasSubstr("/bad/link\\n.jpg: skipped: does not exist\n"));
  EXPECT_THAT(result.err, HasSubstr("/bad/pipe.jpg: skipped: is not a regular file\n"));
  EXPECT_THAT(result.err, HasSubstr("/Notes.db: skipped: not a JPEG, PNG, TIFF or WebP"));
  EXPECT_THAT(result.err, HasSubstr("/bad/flipped.png: skipped: damaged PNG: "));
  EXPECT_THAT(result.out, HasSubstr("skipped: 4 damaged, 3 format, 2 missing; reasons in "));

  std::vector<std::string> drawn;
  for (const auto& entry : fs::directory_iterator(folder_ / "out/drawn")) {
    drawn.push_back(entry.path().filename().string());
    const std::string bytes = read_file(entry.path().string());
    Image image;
    EXPECT_TRUE(JpegDecoder().decode(bytes, image).ok) << drawn.back();
  }
  EXPECT_THAT(drawn,
              testing::UnorderedElementsAre("1_An image.jpg", "2_a_b.c_no extension.jpg",
                                            "3_image0.jpg", "4_image10.jpg", "5_image12.jpg"));
  EXPECT_FALSE(path_exists(folder_ / "out/metrics.json"));
  EXPECT_FALSE(path_exists(folder_ / "out/report.html"));
}

// The very files that a shard holds: the same boxes and scores to the last bit.
TEST_F(FoundImages, AreDetectedOnAsPackedOnesAre) {
  write_tiny_shards(folder_ / "shards", 7);
  const ShardSet shards(folder_ / "shards");
  images_ = folder_ / "files";
  make_folder(images_);
  for (std::size_t place = 0; place < shards.index().size(); ++place) {
    const Record record = shards.read(place);
    write_file_atomically(cat(images_, "/", record.image_id), record.image);
  }
  ASSERT_EQ(run_process(command("out")).exit_code, 0);
  auto packed = command("packed");
  packed[3] = "--data";
  packed[4] = folder_ / "shards";
  ASSERT_EQ(run_process(packed).exit_code, 0);
  const auto expected = read_results(folder_ / "packed/detections.json");
  const auto found = read_results(folder_ / "out/detections.json");
  ASSERT_GT(expected.size(), 20U);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].image_id, expected[i].image_id - 999);
    EXPECT_EQ(found[i].category_id, expected[i].category_id);
    EXPECT_EQ(found[i].bbox, expected[i].bbox);
    EXPECT_EQ(found[i].score, expected[i].score);
  }
}

TEST_F(FoundImages, AFolderWithoutImagesIsBadData) {
  images_ = folder_ / "images";
  make_folder(images_ + "/sub");
  write_file_atomically(images_ + "/a.txt", "hello");
  write_file_atomically(images_ + "/sub/b.jpg", "hello");
  expect_refusal(run_process(under_mpirun(2, command("out"))), 65,
                 "none of the 2 files can be used");
  EXPECT_FALSE(path_exists(folder_ / "out"));

  // One whose header is right is tried, so the output folder is there: unfinished.
  const std::string png = encode_png(colourful(40, 30));
  write_file_atomically(images_ + "/cut.png", png.substr(0, png.size() / 2));
  expect_refusal(run_process(command("out")), 65, "none of the 3 files can be used");
  EXPECT_EQ(JsonFile::read(folder_ / "out/left_out.json").root().size(), 3U);
  // Mended, it is another folder: --overwrite, as the message says.
  write_file_atomically(images_ + "/cut.png", png);
  EXPECT_EQ(run_process(command("out", {"--overwrite"})).exit_code, 0);
}

TEST_F(FoundImages, OptionsThatDoNotFitAreRefused) {
  expect_refusal(run_process(command("out", {"--data", "x"})), 64,
                 "give either --data or --images, not both");
  expect_refusal(run_process(command("out", {"--min-score", "0.5"})), 64, "no ground truth");
  expect_refusal(run_process(command("out", {"--precision", "fp8"})), 64, "--precision");
  expect_refusal(run_process(command("out", {"--output-format", "xml"})), 64, "--output-format");
  auto packed = command("out", {"--output-format", "csv"});
  packed[3] = "--data";
  expect_refusal(run_process(packed), 64, "--output-format: has no effect with --data");
  images_ = folder_.path();
  write_file_atomically(folder_ / "1.png", encode_png(colourful(30, 30)));
  auto same = command("out");
  same[6] = folder_.path();
  expect_refusal(run_process(same), 78, "the images' folder is also the output's");
}

TEST_F(FoundImages, AChangedFolderIsAnotherEvaluation) {
  images_ = folder_ / "photos";
  make_folder(images_);
  write_file_atomically(images_ + "/1.png", encode_png(colourful(50, 40)));
  write_file_atomically(images_ + "/2.png", encode_png(colourful(40, 50)));
  const std::vector<std::string> drawn{"--draw", "9,score=0"};
  ASSERT_EQ(run_process(command("out", drawn)).exit_code, 0);
  EXPECT_TRUE(path_exists(folder_ / "out/drawn/2_2.jpg"));

  // Moved, it is the same.
  fs::rename(images_, folder_ / "moved");
  images_ = folder_ / "moved";
  EXPECT_THAT(run_process(command("out", drawn)).out, HasSubstr("already finished"));

  remove_file(images_ + "/2.png");
  const ProcessResult changed = run_process(command("out", drawn));
  EXPECT_EQ(changed.exit_code, 78) << changed.err;
  EXPECT_THAT(changed.err, HasSubstr("holds another evaluation: images (was "));
  std::vector<std::string> over = drawn;
  over.push_back("--overwrite");
  const ProcessResult replaced = run_process(command("out", over));
  EXPECT_EQ(replaced.exit_code, 0) << replaced.err;
  EXPECT_TRUE(path_exists(folder_ / "out/drawn/1_1.jpg"));
  EXPECT_FALSE(path_exists(folder_ / "out/drawn/2_2.jpg"));
  EXPECT_EQ(read_instances(folder_ / "out/images.json").images.size(), 1U);
}

// The output may lie among the images: what was drawn is not detected on.
TEST_F(FoundImages, TheOutputAmongThemIsNoInput) {
  images_ = folder_.path();
  write_file_atomically(folder_ / "1.png", encode_png(colourful(50, 40)));
  const std::vector<std::string> drawn{"--draw", "1,score=0"};
  ASSERT_EQ(run_process(command("out", drawn)).exit_code, 0);
  ASSERT_TRUE(path_exists(folder_ / "out/drawn/1_1.jpg"));
  EXPECT_THAT(run_process(command("out", drawn)).out, HasSubstr("already finished"));
}

}  // namespace
}  // namespace retina
