// retina-eval --images: files, folders and globs, and the formats of --output-format.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "shared/coco/instances.h"
#include "shared/coco/results.h"
#include "shared/image/jpeg.h"
#include "shared/onnx/onnx_session.h"
#include "shared/shard/shard_set.h"
#include "tests/evaluate/tiny_model_command.h"
#include "tests/support/faults/faulty.h"
#include "tests/support/images/images.h"

namespace retina {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Three images of one size and one of another.
class GivenImages : public TinyModelCommand {
 protected:
  GivenImages() {
    write("1.png", encode_png(colourful(50, 40)));
    write("2, \"b\".jpg", encode_jpeg(colourful(50, 40), 95));
    write("sub/3.png", encode_png(colourful(50, 40)));
    write("sub/4.webp", encode_webp(colourful(90, 60)));
  }
  void write(const std::string& name, const std::string& bytes) const {
    make_folder_of(photos_ + "/" + name);
    write_file_atomically(photos_ + "/" + name, bytes);
  }
  std::vector<std::string> of(std::vector<std::string> images, const std::string& output,
                              const std::vector<std::string>& more = {}) const {
    images.insert(images.begin(), "--images");
    return command_on(images, output, more);
  }
  std::vector<std::string> names_in(const std::string& output) const {
    std::vector<std::string> names;
    for (const ImageInfo& image : read_instances(folder_ / output + "/images.json").images) {
      names.push_back(image.file_name);
    }
    return names;
  }
  std::vector<std::string> files_in(const std::string& output) const {
    std::vector<std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / output)) {
      if (entry.is_regular_file() && !entry.path().filename().string().starts_with("."))
        files.push_back(entry.path().lexically_relative(folder_ / output).string());
    }
    return files;
  }

  const std::string photos_ = folder_ / "my photos";
};

TEST_F(GivenImages, MayBeFilesFoldersAndGlobs) {
  const std::string one = photos_ + "/1.png", sub = photos_ + "/sub";
  ASSERT_EQ(run_process(of({one}, "one")).exit_code, 0);
  EXPECT_THAT(names_in("one"), testing::ElementsAre(one));
  const ProcessResult several = run_process(of({sub, one}, "several"));
  ASSERT_EQ(several.exit_code, 0) << several.err;
  EXPECT_THAT(names_in("several"), testing::ElementsAre(one, sub + "/3.png", sub + "/4.webp"));
  const ProcessResult glob = run_process(of({photos_ + "/*.png", photos_ + "/*/*"}, "glob"));
  ASSERT_EQ(glob.exit_code, 0) << glob.err;
  for (const char* file : {"/detections.json", "/images.json", "/left_out.json"}) {
    EXPECT_EQ(output(cat("glob", file)), output(cat("several", file))) << file;
    EXPECT_NE(output(cat("glob", file)), "");
  }
  EXPECT_THAT(run_process(of({one, sub}, "several")).out, HasSubstr("already finished"))
      << "the same files in another order";
  EXPECT_EQ(run_process(of({one}, "several")).exit_code, 78);
}

TEST_F(GivenImages, EveryNumberOfRanksWritesTheSameBytes) {
  write("cut.png", encode_png(colourful(50, 40)).substr(0, 200));
  const std::vector<std::string> given{photos_ + "/*.*", photos_ + "/sub"},
      more{"--images-per-batch", "2", "--output-format", "yolo"};
  ASSERT_EQ(run_process(of(given, "1", more)).exit_code, 0);
  const ProcessResult three = run_process(under_mpirun(3, of(given, "3", more)));
  ASSERT_EQ(three.exit_code, 0) << three.err;
  EXPECT_THAT(three.err, HasSubstr(photos_ + "/cut.png: skipped: damaged PNG"));
  const std::vector<std::string> files = files_in("1");
  EXPECT_THAT(files_in("3"), testing::UnorderedElementsAreArray(files));
  for (const std::string& file : files) {
    if (file == "config.json") continue;  // has the options
    EXPECT_EQ(output("3/" + file), output("1/" + file)) << file;
  }
}

TEST_F(GivenImages, ThatCannotBeUsedEndTheJobWithOneLine) {
  const auto error_of = [](const ProcessResult& result) {
    return result.err.substr(result.err.find("error: "));
  };
  const std::string there = photos_ + "/1.png", missing = photos_ + "/5.png";
  for (const std::vector<std::string>& given :
       {std::vector{missing}, {there, missing}, {photos_ + "/*.gif"}, {photos_ + "/1.png/x"}}) {
    const ProcessResult result = run_process(of(given, "out"));
    expect_refusal(result, 66, cat("error: ", given.back(), ": "));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  expect_refusal(run_process(of({folder_ / "pipe"}, "out")), 66,
                 "pipe: is neither a regular file nor a folder");
  write_file_atomically(folder_ / "empty.jpg", "");
  EXPECT_THAT(error_of(run_process(of({folder_ / "empty.jpg"}, "out"))),
              HasSubstr("/empty.jpg: not a JPEG, PNG, TIFF or WebP: the file is empty\n"));
  write_file_atomically(folder_ / "clip.mp4", std::string("\0\0\0\x20"
                                                          "ftypisom",
                                                          12));
  const ProcessResult video = run_process(under_mpirun(2, of({folder_ / "clip.mp4"}, "out")));
  EXPECT_EQ(video.exit_code, 65);
  EXPECT_THAT(video.err, HasSubstr("/clip.mp4: not a JPEG, PNG, TIFF or WebP but a video: make "
                                   "images of its frames"));
  make_folder(folder_ / "a.jpg");
  expect_refusal(run_process(of({folder_ / "a.jpg"}, "out")), 65, "/a.jpg: holds no files");
  const ProcessResult both = run_process(of({folder_ / "a.jpg", there}, "out"));
  EXPECT_EQ(both.exit_code, 0);
  EXPECT_THAT(both.err, HasSubstr("/a.jpg/: skipped: holds no files"));
}

TEST_F(GivenImages, YoloHasALabelFileForEachImageAndTheClasses) {
  write("broken.png", "no image");
  const ProcessResult result = run_process(of({photos_}, "out", {"--output-format", "yolo"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(files_in("out"),
              testing::UnorderedElementsAre(
                  "config.json", "detections.json", "images.json", "left_out.json", "data.yaml",
                  "labels/1.txt", "labels/2, \"b\".txt", "labels/sub/3.txt", "labels/sub/4.txt"));
  EXPECT_EQ(output("out/data.yaml"), "names:\n  0: \"cat\"\n  1: \"dog\"\n  2: \"cow\"\n");
  std::size_t lines = 0;
  for (const char* name : {"1", "2, \"b\"", "sub/3", "sub/4"}) {
    const std::string text = output(cat("out/labels/", name, ".txt"));
    lines += static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  }
  EXPECT_EQ(lines, read_results(folder_ / "out/detections.json").size());
}

// What is written can be packed: the whole way back, through both programs.
TEST_F(GivenImages, CocoPackReadsEveryFormat) {
  fs::rename(photos_ + "/2, \"b\".jpg", photos_ + "/2.jpg");
  fs::create_directories(folder_ / "yolo");
  fs::create_directory_symlink(photos_, folder_ / "yolo/images");
  ASSERT_EQ(run_process(of({photos_}, "yolo", {"--output-format", "yolo,csv"})).exit_code, 0);
  const std::size_t count = read_results(folder_ / "yolo/detections.json").size();
  ASSERT_GT(count, 10U);
  for (const auto& [format, annotations] :
       {std::pair{"yolo", "yolo/data.yaml"}, {"csv", "yolo/detections.csv"}}) {
    const std::string shards = folder_ / cat("shards-", format);
    const ProcessResult packed =
        run_process({"coco-pack", "--format", format, "--annotations", folder_ / annotations,
                     "--images", folder_ / "yolo/images", "--output", shards, "--convert"});
    ASSERT_EQ(packed.exit_code, 0) << packed.err;
    const ShardSet set(shards);
    EXPECT_EQ(set.index().size(), 4U) << format;
    std::size_t boxes = 0;
    for (std::size_t place = 0; place < set.index().size(); ++place) {
      boxes += set.read(place).annotations.size();
    }
    EXPECT_EQ(boxes, count) << format;
  }
}

TEST_F(GivenImages, AnotherFormatIsAnotherEvaluation) {
  ASSERT_EQ(run_process(of({photos_}, "out", {"--output-format", "coco,yolo"})).exit_code, 0);
  const ProcessResult other = run_process(of({photos_}, "out", {"--output-format", "csv"}));
  EXPECT_EQ(other.exit_code, 78);
  EXPECT_THAT(other.err, HasSubstr("output-format (was \"coco,yolo\", now \"csv\")"));
  ASSERT_EQ(run_process(of({photos_}, "out", {"--output-format", "csv", "--overwrite"})).exit_code,
            0);
  EXPECT_THAT(files_in("out"),
              testing::UnorderedElementsAre("config.json", "detections.json", "images.json",
                                            "left_out.json", "detections.csv"));
}

TEST_F(GivenImages, LabelsThatNoEvaluationWroteStay) {
  make_folder(folder_ / "out/labels/sub");
  write_file_atomically(folder_ / "out/labels/sub/3.txt", "0 .5 .5 .5 .5\n");
  const ProcessResult result =
      run_process(of({photos_}, "out", {"--output-format", "yolo", "--overwrite"}));
  EXPECT_EQ(result.exit_code, 78);
  EXPECT_THAT(result.err, HasSubstr("holds labels/sub/3.txt, which no evaluation wrote"));
  EXPECT_EQ(run_process(of({photos_}, "out")).exit_code, 0) << "they are not in the way of coco";
  EXPECT_EQ(output("out/labels/sub/3.txt"), "0 .5 .5 .5 .5\n");
}

// Beside ours: what other tools write into such folders.
TEST_F(GivenImages, ForeignFilesInItsFoldersStayWhenItIsDoneAgain) {
  const std::vector<std::string> yolo{"--output-format", "yolo", "--draw", "4,score=0"};
  ASSERT_EQ(run_process(of({photos_}, "out", yolo)).exit_code, 0);
  const std::vector<std::string> foreign{"out/labels/classes.txt", "out/labels/mine/1.txt",
                                         "out/drawn/2024_holiday.jpg"};
  for (const std::string& file : foreign) {
    make_folder_of(folder_ / file);
    write_file_atomically(folder_ / file, "mine");
  }
  remove_file(folder_ / "out/images.json");  // as after a kill
  ASSERT_EQ(run_process(of({photos_}, "out", yolo)).exit_code, 0);
  const ProcessResult csv =
      run_process(of({photos_}, "out", {"--output-format", "csv", "--overwrite"}));
  ASSERT_EQ(csv.exit_code, 0) << csv.err;
  for (const std::string& file : foreign) EXPECT_EQ(output(file), "mine") << file;
  EXPECT_FALSE(path_exists(folder_ / "out/labels/1.txt"));
}

TEST_F(GivenImages, StoredTurnedAreTakenSoWithAWarning) {
  write("turned.tif", encode_tiff({.width = 30, .height = 20, .orientation = 6},
                                  std::vector<std::uint16_t>(30 * 20 * 3)));
  const ProcessResult result = run_process(of({photos_}, "out"));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("1 image is stored rotated (EXIF orientation) and used as "
                                    "stored, as coco-pack does without --exif apply"));
  const ProcessResult tiled = run_process(of({photos_}, "tiled", {"--tile", "64"}));
  ASSERT_EQ(tiled.exit_code, 0) << tiled.err;
  EXPECT_THAT(tiled.err, HasSubstr("as coco-pack does with --tile\n"));
}

TEST_F(GivenImages, AFullDiskLeavesNoHalfFileAndTheNextRunEndsWithTheSameBytes) {
  RETINA_FAULTS_OR_SKIP();
  for (const char* format : {"yolo", "csv"}) {
    const std::vector<std::string> more{"--output-format", format};
    const std::string whole = cat(format, "-whole"), full = cat(format, "-full");
    ASSERT_EQ(run_process(of({photos_}, whole, more)).exit_code, 0);
    const std::string place = format == std::string("yolo") ? "/labels" : "/detections.csv";
    const ProcessResult result = run_process(faulty(
        cat("write=ENOSPC bytes=900 path=", folder_ / full, place), of({photos_}, full, more)));
    EXPECT_EQ(result.exit_code, 74) << result.err;
    EXPECT_FALSE(path_exists(folder_ / full + "/images.json"));
    for (const std::string& file : files_in(full)) {
      if (file == "config.json") continue;  // has the options
      EXPECT_EQ(output(full + "/" + file), output(whole + "/" + file)) << file;
    }
    ASSERT_EQ(run_process(of({photos_}, full, more)).exit_code, 0);
    EXPECT_THAT(files_in(full), testing::UnorderedElementsAreArray(files_in(whole)));
  }
}

// A checkpoint and an inference model of it.
TEST_F(GivenImages, OfOneSizeInABatchHaveTheDetectionsOfEachAlone) {
  for (int i = 0; i < 5; ++i) write(cat("same/", i, ".png"), encode_png(colourful(64, 64 - i / 4)));
  std::vector<std::string> models{*shared_ / "model.pt"};
  if (has_onnx_runtime()) {
    models.push_back(folder_ / "model.onnx");
    const ProcessResult converted =
        run_process({"retina-convert", "--checkpoint", models[0], "--output", models[1],
                     "--verification-images", "1"});
    ASSERT_EQ(converted.exit_code, 0) << converted.err;
  }
  for (const std::string& model : models) {
    const std::string name = fs::path(model).filename().string();
    const auto detections = [&](const char* images_per_batch) {
      std::vector<std::string> words =
          of({photos_}, cat(name, images_per_batch), {"--images-per-batch", images_per_batch});
      words[2] = model;
      const ProcessResult result = run_process(words);
      EXPECT_EQ(result.exit_code, 0) << result.err;
      return read_results(folder_ / cat(name, images_per_batch, "/detections.json"));
    };
    const auto alone = detections("1"), together = detections("4");
    ASSERT_GT(alone.size(), 20U);
    ASSERT_EQ(together.size(), alone.size());
    for (std::size_t i = 0; i < alone.size(); ++i) {
      EXPECT_EQ(together[i].image_id, alone[i].image_id);
      EXPECT_NEAR(together[i].score, alone[i].score, 1e-5);
    }
  }
}

}  // namespace
}  // namespace retina
