#include "shared/checkpoint/pretrained.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

namespace fs = std::filesystem;

const PretrainedWeights& named(const std::string& name) {
  const PretrainedWeights* const found = find_pretrained(name);
  if (found == nullptr) throw std::out_of_range(name);
  return *found;
}

// Without $RETINA_WEIGHTS before and after.
class Pretrained : public testing::Test {
 protected:
  Pretrained() { unsetenv("RETINA_WEIGHTS"); }
  ~Pretrained() override { unsetenv("RETINA_WEIGHTS"); }

  // Puts coco-v2 into `folder` below the test's; its path.
  std::string put(const std::string& folder) {
    fs::create_directories(folder_ / folder);
    const std::string path = folder_ / cat(folder, "/", coco_.file());
    write_file_atomically(path, "weights");
    return path;
  }
  const TestFolder folder_;
  const PretrainedWeights& coco_ = named("coco-v2");
};

TEST_F(Pretrained, TheTableIsThatOfRetinaWeights) {
  EXPECT_EQ(read_file(cat(RETINA_SOURCE_DIR, "/docker/weights.txt")), kWeightsTable);
  EXPECT_EQ(pretrained_names(),
            "coco-v2, coco-v1, imagenet-v2, imagenet-v1, imagenet-v1-BACKBONE, "
            "imagenet-v2-BACKBONE");
  EXPECT_EQ(coco_.source, "retinanet_resnet50_fpn_v2_coco-5905b1c5.pth");
  EXPECT_EQ(coco_.file(), "retinanet_resnet50_fpn_v2_coco-5905b1c5.pt");
  EXPECT_EQ(find_pretrained("coco-v3"), nullptr);
  EXPECT_EQ(find_backbone("imagenet-v2", "resnet50"), find_pretrained("imagenet-v2"));
  EXPECT_EQ(find_backbone("imagenet-v2", "regnet_x_1_6gf")->source, "regnet_x_1_6gf-a12f2b72.pth");
  EXPECT_EQ(find_backbone("imagenet-v2", "resnet18"), nullptr) << "torchvision has v1 alone";
  EXPECT_EQ(find_pretrained(""), nullptr);
  EXPECT_EQ(pretrained_of_file("a/b/" + coco_.file()), &coco_);
  EXPECT_EQ(pretrained_of_file(coco_.source), nullptr) << "not imported";
}

TEST_F(Pretrained, TheNearestFolderWeightsAboveTheSetIsTaken) {
  const std::string train = folder_ / "coco/shards/train";
  EXPECT_EQ(locate(coco_, train), "");
  const std::string outer = put("weights");
  EXPECT_EQ(locate(coco_, train), outer);
  const std::string beside_shards = put("coco/weights");
  EXPECT_EQ(locate(coco_, train), beside_shards);
  const std::string beside_the_set = put("coco/shards/weights");
  for (const char* spelling : {"", "/", "/."}) {
    EXPECT_EQ(locate(coco_, train + spelling), beside_the_set) << spelling;
  }
  EXPECT_EQ(locate(named("coco-v1"), train), "") << "another file";
  const std::string in_the_data = put("photos/weights");
  EXPECT_EQ(locate(coco_, folder_ / "photos/."), in_the_data);
}

TEST_F(Pretrained, ANameIsAnImportOfItsWeights) {
  const NamedBy by = {.option = "--model", .near = folder_ / "photos"};
  const auto problem_of = [&](const std::string& given) -> std::string {
    try {
      return resolve_name(given, by);
    } catch (const Error& error) {
      return cat(exit_code(error.kind()), " ", error.what(), "; ", error.hint());
    }
  };
  EXPECT_EQ(problem_of("run/best.pt"), "run/best.pt");
  EXPECT_THAT(problem_of("coco-v3"),
              testing::AllOf(testing::StartsWith("66 --model coco-v3: no such file"),
                             testing::HasSubstr("one of coco-v2, coco-v1,")));
  EXPECT_THAT(problem_of("coco-v2"), testing::AllOf(testing::StartsWith("66 --model coco-v2: "),
                                                    testing::HasSubstr("; make weights DATA=")));
  const std::string path = put("weights");
  EXPECT_THAT(problem_of("coco-v2"), testing::StartsWith("65 ")) << "no checkpoint at all";
  fs::remove(path);
  fs::create_directory(path);
  EXPECT_THAT(problem_of("coco-v2"),
              testing::AllOf(testing::StartsWith("65 "),
                             testing::HasSubstr("(got a folder, want an import of")));
}

TEST_F(Pretrained, TheFolderOfTheEnvironmentComesFirst) {
  const std::string beside = put("weights"), own = put("own");
  const std::string train = folder_ / "train";
  setenv("RETINA_WEIGHTS", (folder_ / "own").c_str(), 1);
  EXPECT_EQ(locate(coco_, train), own);
  setenv("RETINA_WEIGHTS", (folder_ / "none").c_str(), 1);
  EXPECT_EQ(locate(coco_, train), beside);
  setenv("RETINA_WEIGHTS", "", 1);
  EXPECT_EQ(locate(coco_, train), beside);
}

TEST_F(Pretrained, TheCommandFetchesToWhereTheFileIsLookedFor) {
  const auto command = [&](const std::string& train) { return fetch_command(coco_, train); };
  EXPECT_EQ(command("coco/shards/train2017"),
            "make weights DATA=coco WEIGHTS=coco-v2 (without the sources: retina-weights --output "
            "coco/weights coco-v2)");
  EXPECT_THAT(command("mine/train/"), testing::HasSubstr("DATA=mine WEIGHTS=coco-v2 "));
  EXPECT_THAT(command("shards/train"), testing::HasSubstr("DATA=. "));
  EXPECT_THAT(command("train"), testing::HasSubstr("DATA=. "));
  EXPECT_THAT(command("../shards/train"), testing::HasSubstr("DATA=.. "));
  EXPECT_THAT(command(""), testing::HasSubstr("DATA=. ")) << "a speed test has no set";
  EXPECT_THAT(command("/my data/shards/train"), testing::HasSubstr("DATA='/my data' "));
  EXPECT_THAT(command("/it's/shards/train"), testing::HasSubstr("DATA='/it'\\''s' "));

  for (const char* set : {"a/shards/train", "b/train", "shards/c"}) {
    const std::string train = folder_ / set;
    const std::string path = fetched_path(coco_, train);
    fs::create_directories(fs::path(path).parent_path());
    write_file_atomically(path, "weights");
    EXPECT_EQ(locate(coco_, train), path);
  }

  for (const char* own : {"own/weights", "own/weights/"}) {
    setenv("RETINA_WEIGHTS", own, 1);
    EXPECT_THAT(command("coco/shards/train"), testing::HasSubstr("DATA=own "));
  }
  setenv("RETINA_WEIGHTS", "/elsewhere", 1);
  EXPECT_THAT(command("coco/shards/train"), testing::HasSubstr("DATA=coco "));
}

}  // namespace
}  // namespace retina
