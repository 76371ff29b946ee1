#include "shared/coco/results.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/numeric/random.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

std::vector<Detection> read(const std::string& text) {
  const TestFolder folder;
  write_file_atomically(folder / "r.json", text);
  return read_results(folder / "r.json");
}

// Without the file's folder.
std::string problem(const std::string& text) {
  const std::string message = refusal_of(ErrorKind::kData, [&] { read(text); });
  return message.substr(message.find("r.json"));
}

TEST(Results, WrittenDetectionsReadBackBitForBit) {
  const TestFolder folder;
  const std::string path = folder / "detections.json";
  const RandomStream random{.seed = 5};
  std::vector<Detection> detections;
  for (std::uint64_t i = 0; i < 500; ++i) {
    Detection detection{.image_id = static_cast<std::int64_t>(random.bits(i * 8) >> 1),
                        .category_id = -static_cast<std::int64_t>(i)};
    for (std::uint64_t k = 0; k < 4; ++k) {
      const double value = 1000 * random.normal(i * 8 + 1 + k);
      detection.bbox[k] = k < 2 ? value : std::abs(value);
    }
    detection.score = random.unit(i * 8 + 5);
    detections.push_back(detection);
  }
  write_results(path, detections);
  const std::vector<Detection> back = read_results(path);
  ASSERT_EQ(back.size(), detections.size());
  for (std::size_t i = 0; i < back.size(); ++i) {
    ASSERT_EQ(back[i].image_id, detections[i].image_id);
    ASSERT_EQ(back[i].category_id, detections[i].category_id);
    ASSERT_EQ(back[i].bbox, detections[i].bbox);
    ASSERT_EQ(back[i].score, detections[i].score);
  }
}

TEST(Results, EntriesNameTheFileOfTheirImage) {
  const TestFolder folder;
  const std::string path = folder / "detections.json";
  write_results(path, {{.image_id = 1}, {.image_id = 1}, {.image_id = 2}, {.image_id = 3}},
                [](std::int64_t id) -> std::string_view {
                  return id == 1 ? "a \"b\".jpg" : id == 2 ? "sub/é.jpg" : "";
                });
  const JsonFile file = JsonFile::read(path);
  for (const std::size_t i : {0, 1}) {
    EXPECT_EQ(file.root().at(i).at("file_name").as_string(), "a \"b\".jpg");
  }
  EXPECT_EQ(file.root().at(std::size_t{2}).at("file_name").as_string(), "sub/é.jpg");
  EXPECT_FALSE(file.root().at(std::size_t{3}).has("file_name"));
  EXPECT_EQ(read_results(path).size(), 4U);
}

TEST(Results, OfOtherImagesAreRefusedByTheirFileNames) {
  const TestFolder folder;
  const std::string path = folder / "detections.json";
  const std::vector<Detection> detections{{.image_id = 1}, {.image_id = 2}};
  write_results(path, detections,
                [](std::int64_t id) { return id == 1 ? "there/a.jpg" : "there/b.jpg"; });
  Instances truth{.images = {{.id = 1, .file_name = "a.jpg"}, {.id = 2, .file_name = "b.jpg"}}};
  EXPECT_NO_THROW(check_file_names(path, file_name_finder(truth)));
  truth.images[1].file_name = "c.jpg";
  EXPECT_NO_THROW(check_file_names(path, file_name_finder(truth))) << "a file was renamed";
  truth.images[0].file_name = "d.jpg";
  EXPECT_THAT(
      refusal_of(ErrorKind::kData, [&] { check_file_names(path, file_name_finder(truth)); }),
      testing::HasSubstr("entry [0] has there/a.jpg as image 1, which is d.jpg here"));
  write_results(path, detections);
  EXPECT_NO_THROW(check_file_names(path, file_name_finder(truth))) << "nothing is named";
  write_file_atomically(path, R"([{"image_id": 1, "category_id": 1, "bbox": [1, 1, 2, 2],
                                   "score": 1, "file_name": null, "x": {"file_name": 7}}])");
  EXPECT_NO_THROW(check_file_names(path, file_name_finder(truth))) << "not ours";
}

TEST(Results, OfManyImagesAreLookedAtInTheirFirstPart) {
  const TestFolder folder;
  const std::string path = folder / "detections.json";
  write_results(path, std::vector<Detection>(20'000, {.image_id = 1}),
                [](std::int64_t) { return "a}, \"b\".png"; });
  ASSERT_GT(file_size_bytes(path), std::uint64_t{1} << 20);
  Instances truth{.images = {{.id = 1, .file_name = "there/A}, \"B\".jpg"}}};
  EXPECT_NO_THROW(check_file_names(path, file_name_finder(truth)));
  truth.images[0].file_name = "c.jpg";
  EXPECT_THROW(check_file_names(path, file_name_finder(truth)), Error);
}

TEST(Results, AnEmptyListIsFine) {
  const TestFolder folder;
  write_results(folder / "none.json", {});
  EXPECT_TRUE(read_results(folder / "none.json").empty());
  EXPECT_TRUE(read("[]").empty());
}

TEST(Results, OtherKeysAreSkipped) {
  const auto all =
      read(R"([{"id": "x", "segmentation": {"counts": "a"}, "image_id": 1, "category_id": 2,
           "bbox": [1, 2, 3, 4], "score": 1, "area": "big"}])");
  EXPECT_EQ(all.at(0).score, 1.0);
}

// Of a large file, too, where the tool's own keys come at the end.
TEST(Results, OfOtherToolsAreNamedWithWhatIsWanted) {
  const TestFolder folder;
  const auto refused = [&](const std::string& path) {
    try {
      read_results(path);
    } catch (const Error& error) {
      return cat(error.what(), "; ", error.hint()).substr(path.size());
    }
    return std::string("accepted");
  };
  make_folder(folder / "labels");
  EXPECT_THAT(refused(folder / "labels"), testing::HasSubstr("; give COCO's results: ["));
  const std::string padding(3 << 20, ' ');
  for (const auto& [text, message] :
       {std::pair<std::string, const char*>{"0.jpg,10,8,50,48,cat,0.9\n",
                                            ": got CSV, want JSON; give COCO's results: ["},
        {"{}", ": got an object, want an array; give COCO's"},
        {cat("{\"images\": [", padding, "],\n\"annotations\": [{\"segments_info\": 1}]}"),
         ": got an object, want an array; this is a file of COCO's panoptic segmentation; "}}) {
    write_file_atomically(folder / "r.json", text);
    EXPECT_THAT(refused(folder / "r.json"), testing::StartsWith(message));
  }
}

TEST(Results, BadEntriesAreNamed) {
  EXPECT_EQ(problem("{}"), "r.json: got an object, want an array");
  EXPECT_EQ(problem("[3]"), "r.json: entry [0]: got a number, want an object");
  const std::string good = R"({"image_id": 1, "category_id": 2, "bbox": [1, 2, 3, 4], "score": 1})";
  EXPECT_EQ(problem("[" + good + R"(, {"image_id": 1, "category_id": 2, "score": 1}])"),
            "r.json: entry [1]: key \"bbox\" is missing");
  EXPECT_EQ(problem(R"([{"image_id": 1, "category_id": 2, "bbox": [1, 2, 3, 4], "score": NaN}])"),
            "r.json: entry [0]: score: got nan, want a finite number");
  EXPECT_EQ(
      problem(R"([{"image_id": 1, "category_id": 2, "bbox": [1, 2, 3, 4], "score": "high"}])"),
      "r.json: entry [0]: score: got \"high\", want a number");
  EXPECT_EQ(problem(R"([{"image_id": 1, "category_id": 2, "bbox": [1, 2, 3, 4], "score": 1,
                        "score": 0.5}])"),
            "r.json: entry [0]: key \"score\" appears twice");
  EXPECT_THAT(problem("[" + good), testing::HasSubstr("not valid JSON at line 1"));
}

}  // namespace
}  // namespace retina
