// The folder for model servers. That Triton's own schema parses its config, and that a server loads
// it, is tests/oracle/serving_equals_retina_eval.py's to show.
#include "convert/repository.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names_of(const JsonView& tensors) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    names.push_back(tensors.at(i).at("name").as_string());
  }
  return names;
}

class ModelRepositoryTest : public testing::Test {
 protected:
  ModelRepositoryTest() {
    header_.categories = {{.id = 1, .name = "person", .supercategory = ""},
                          {.id = 7, .name = "two\nlines", .supercategory = ""},
                          {.id = 90, .name = "teddy \"bear\"", .supercategory = ""}};
    header_.max_detections = 42;
    write_file_atomically(model_, "the model");
  }

  // Everything in the repository, by name.
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root_)) {
      if (entry.is_regular_file()) {
        names.insert(std::filesystem::relative(entry.path(), root_).string());
      }
    }
    return names;
  }

  std::string content(const std::string& name) const {
    return read_file(repository_.model_folder() + "/" + name);
  }

  void put(const std::string& name, const std::string& text) const {
    write_file_atomically(repository_.model_folder() + "/" + name, text);
  }

  const TestFolder folder_;
  const std::string model_ = folder_ / "m.onnx", root_ = folder_ / "repository";
  const ModelRepository repository_{root_, "coco_retinanet"};
  InferenceHeader header_;
};

TEST_F(ModelRepositoryTest, TritonsConfigDescribesTheModelsTensors) {
  repository_.write(model_, header_);
  for (const char* line :
       {"name: \"coco_retinanet\"", "backend: \"onnxruntime\"", "platform: \"onnxruntime_onnx\"",
        "{ name: \"images\" data_type: TYPE_UINT8 dims: [ 3, -1, -1 ] }",
        "{ name: \"boxes\" data_type: TYPE_FP32 dims: [ 42, 4 ] }",
        "{ name: \"scores\" data_type: TYPE_FP32 dims: [ 42 ] }",
        "{ name: \"labels\" data_type: TYPE_INT64 dims: [ 42 ] }",
        "{ name: \"counts\" data_type: TYPE_INT64 dims: [ 1 ] reshape: { shape: [ ] } }"}) {
    EXPECT_THAT(content("config.pbtxt"), HasSubstr(line));
  }
  header_.form.image = PixelSize{.height = 480, .width = 640};
  repository_.write(model_, header_);
  EXPECT_THAT(content("config.pbtxt"), HasSubstr("dims: [ 3, 480, 640 ]"));
}

TEST_F(ModelRepositoryTest, MlserversSettingsNameTheModelAndItsSchema) {
  repository_.write(model_, header_);
  const JsonFile file = JsonFile::parse(content("model-settings.json"), "model-settings.json");
  EXPECT_EQ(file.root().at("name").as_string(), "coco_retinanet");
  EXPECT_EQ(file.root().at("implementation").as_string(), "retina_model.RetinaModel");
  EXPECT_EQ(file.root().at("parameters").at("uri").as_string(), "./1/model.onnx");
  EXPECT_THAT(names_of(file.root().at("inputs")), ElementsAre("image"));
  EXPECT_THAT(names_of(file.root().at("outputs")),
              ElementsAre("boxes", "scores", "labels", "category_ids", "category_names", "counts"));
}

TEST_F(ModelRepositoryTest, OfAClassifierDescribesProbabilitiesAndBestClasses) {
  header_.task = Task::kClassification;
  repository_.write(model_, header_);
  const std::string config = content("config.pbtxt");
  EXPECT_THAT(config, HasSubstr("{ name: \"probabilities\" data_type: TYPE_FP32 dims: [ 3 ] }"));
  EXPECT_THAT(config, HasSubstr("{ name: \"logits\" data_type: TYPE_FP32 dims: [ 3 ] }"));
  EXPECT_THAT(config, testing::Not(HasSubstr("boxes")));
  const JsonFile file = JsonFile::parse(content("model-settings.json"), "model-settings.json");
  EXPECT_THAT(names_of(file.root().at("outputs")),
              ElementsAre("scores", "labels", "category_ids", "category_names"));
  EXPECT_EQ(content("labels.txt"), "person\ntwo\\nlines\nteddy \"bear\"\n");
}

TEST_F(ModelRepositoryTest, IsWrittenOnceAndThenOnlyWhatIsMissingOrDiffers) {
  EXPECT_TRUE(repository_.write(model_, header_));
  EXPECT_THAT(files(),
              ElementsAre("coco_retinanet/1/model.onnx", "coco_retinanet/config.pbtxt",
                          "coco_retinanet/labels.txt", "coco_retinanet/model-settings.json"));
  EXPECT_EQ(content("1/model.onnx"), "the model");
  const auto path = repository_.model_folder() + "/config.pbtxt";
  const auto before = std::filesystem::last_write_time(path);
  EXPECT_FALSE(repository_.write(model_, header_));
  EXPECT_EQ(std::filesystem::last_write_time(path), before);
  for (const std::string& name : files()) {
    const std::string file = root_ + "/" + name, whole = read_file(file);
    remove_file(file);
    EXPECT_TRUE(repository_.write(model_, header_)) << name;
    EXPECT_EQ(read_file(file), whole);
    write_file_atomically(file, "THE model");  // of the model's size
    EXPECT_TRUE(repository_.write(model_, header_)) << name;
    EXPECT_EQ(read_file(file), whole);
  }
}

TEST_F(ModelRepositoryTest, ForeignContentIsNamedAndKept) {
  make_folder(repository_.model_folder());
  put("config.pbtxt", "mine");
  put("labels.txt", "mine, too");
  for (const bool overwrite : {false, true}) {
    try {
      repository_.prepare(header_, overwrite);
      FAIL() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCannotCreate);
      EXPECT_THAT(error.what(), HasSubstr("holds something else (labels.txt, config.pbtxt)"));
      EXPECT_THAT(error.hint(), testing::Not(HasSubstr("--overwrite")))
          << "no model of ours is there";
    }
    EXPECT_EQ(content("config.pbtxt"), "mine");
  }
  make_folder_of(repository_.model_path());
  write_file_atomically(repository_.model_path(), "a model of ours");
  EXPECT_NO_THROW(repository_.prepare(header_, /*overwrite=*/true));
}

TEST_F(ModelRepositoryTest, TheModelMayBeTheOutputItself) {
  make_folder(repository_.model_folder() + "/1");
  put("1/model.onnx", "the model");
  EXPECT_TRUE(repository_.write(repository_.model_path(), header_));
  EXPECT_EQ(content("1/model.onnx"), "the model");
  EXPECT_FALSE(repository_.write(repository_.model_path(), header_));
}

TEST(ServiceName, IsWhatAFolderAndAUrlCanHold) {
  for (const char* name : {"coco_retinanet", "a", "_", "Retina-50.v2"}) {
    EXPECT_TRUE(is_service_name(name)) << name;
  }
  for (const std::string& name :
       {std::string(), std::string("../x"), std::string("a/b"), std::string(".hidden"),
        std::string("-x"), std::string("a b"), std::string("a\"b"), std::string("\xc3\xa9"),
        std::string(129, 'a')}) {
    EXPECT_FALSE(is_service_name(name)) << name;
  }
}

}  // namespace
}  // namespace retina
