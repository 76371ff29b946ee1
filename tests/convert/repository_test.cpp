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

TEST_F(ModelRepositoryTest, HoldsTheModelOnceAndAFileForEachServer) {
  EXPECT_TRUE(repository_.write(model_, header_));
  EXPECT_THAT(files(),
              ElementsAre("coco_retinanet/1/model.onnx", "coco_retinanet/config.pbtxt",
                          "coco_retinanet/configs/tensorrt.pbtxt", "coco_retinanet/labels.txt",
                          "coco_retinanet/model-settings.json"));
  EXPECT_EQ(content("1/model.onnx"), "the model");
}

TEST_F(ModelRepositoryTest, TritonsConfigsDescribeTheModelsTensors) {
  repository_.write(model_, header_);
  for (const char* name : {"config.pbtxt", "configs/tensorrt.pbtxt"}) {
    const std::string config = content(name);
    for (const char* line :
         {"name: \"coco_retinanet\"",
          "{ name: \"images\" data_type: TYPE_UINT8 dims: [ 3, -1, -1 ] }",
          "{ name: \"boxes\" data_type: TYPE_FP32 dims: [ 42, 4 ] }",
          "{ name: \"scores\" data_type: TYPE_FP32 dims: [ 42 ] }",
          "{ name: \"labels\" data_type: TYPE_INT64 dims: [ 42 ] }",
          "{ name: \"counts\" data_type: TYPE_INT64 dims: [ 1 ] reshape: { shape: [ ] } }"}) {
      EXPECT_THAT(config, HasSubstr(line)) << name;
    }
  }
}

TEST_F(ModelRepositoryTest, TritonTakesTheModelWithTwoBackends) {
  repository_.write(model_, header_);
  EXPECT_THAT(content("config.pbtxt"), HasSubstr("backend: \"onnxruntime\""));
  EXPECT_THAT(content("config.pbtxt"), HasSubstr("platform: \"onnxruntime_onnx\""));
  EXPECT_THAT(content("configs/tensorrt.pbtxt"), HasSubstr("backend: \"tensorrt\""));
  EXPECT_THAT(content("configs/tensorrt.pbtxt"), HasSubstr("platform: \"tensorrt_plan\""));
}

TEST_F(ModelRepositoryTest, TheConfigOfAModelOfOneSizeNamesIt) {
  header_.form.image = PixelSize{.height = 480, .width = 640};
  repository_.write(model_, header_);
  for (const char* name : {"config.pbtxt", "configs/tensorrt.pbtxt"}) {
    EXPECT_THAT(content(name), HasSubstr("dims: [ 3, 480, 640 ]"));
    EXPECT_THAT(content(name), HasSubstr("all of this height and width"));
  }
}

TEST_F(ModelRepositoryTest, MlserversSettingsNameTheModelAndItsSchema) {
  repository_.write(model_, header_);
  const JsonFile file = JsonFile::parse(content("model-settings.json"), "model-settings.json");
  const JsonView settings = file.root();
  EXPECT_EQ(settings.at("name").as_string(), "coco_retinanet");
  EXPECT_EQ(settings.at("implementation").as_string(), "retina_model.RetinaModel");
  EXPECT_EQ(settings.at("parameters").at("uri").as_string(), "./1/model.onnx");
  const auto names = [&](const char* key) {
    std::vector<std::string> list;
    const JsonView tensors = settings.at(key);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      list.push_back(tensors.at(i).at("name").as_string());
    }
    return list;
  };
  EXPECT_THAT(names("inputs"), ElementsAre("image"));
  EXPECT_THAT(names("outputs"),
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
  EXPECT_EQ(file.root().at("implementation").as_string(), "retina_model.RetinaModel");
  std::vector<std::string> names;
  const JsonView outputs = file.root().at("outputs");
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    names.push_back(outputs.at(i).at("name").as_string());
  }
  EXPECT_THAT(names, ElementsAre("scores", "labels", "category_ids", "category_names"));
  EXPECT_EQ(content("labels.txt"), "person\ntwo\\nlines\nteddy \"bear\"\n");
}

TEST_F(ModelRepositoryTest, LabelsHaveALineForEachClassWhateverItsName) {
  repository_.write(model_, header_);
  EXPECT_EQ(content("labels.txt"), "person\ntwo\\nlines\nteddy \"bear\"\n");
}

TEST_F(ModelRepositoryTest, IsWrittenOnceAndThenLeftAlone) {
  EXPECT_TRUE(repository_.write(model_, header_));
  const auto path = repository_.model_folder() + "/config.pbtxt";
  const auto before = std::filesystem::last_write_time(path);
  EXPECT_FALSE(repository_.write(model_, header_));
  EXPECT_EQ(std::filesystem::last_write_time(path), before);
}

TEST_F(ModelRepositoryTest, WhatIsMissingOrDamagedIsWrittenAgain) {
  for (const char* name : {"1/model.onnx", "labels.txt", "config.pbtxt", "configs/tensorrt.pbtxt",
                           "model-settings.json"}) {
    repository_.write(model_, header_);
    const std::string whole = content(name);
    remove_file(repository_.model_folder() + "/" + name);
    EXPECT_TRUE(repository_.write(model_, header_)) << name;
    EXPECT_EQ(content(name), whole);
    put(name, "x");
    EXPECT_TRUE(repository_.write(model_, header_)) << name;
    EXPECT_EQ(content(name), whole);
  }
  EXPECT_EQ(files().size(), 5u);
}

TEST_F(ModelRepositoryTest, AnotherModelReplacesTheOldOne) {
  repository_.write(model_, header_);
  write_file_atomically(model_, "THE model");  // of the same size
  EXPECT_TRUE(repository_.write(model_, header_));
  EXPECT_EQ(content("1/model.onnx"), "THE model");
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

TEST_F(ModelRepositoryTest, ItsOwnContentIsNotForeign) {
  EXPECT_NO_THROW(repository_.prepare(header_, /*overwrite=*/false));
  repository_.write(model_, header_);
  EXPECT_NO_THROW(repository_.prepare(header_, /*overwrite=*/false));
}

TEST_F(ModelRepositoryTest, AFileInTheFoldersPlaceCannotBeCreated) {
  write_file_atomically(root_, "a file");
  try {
    repository_.prepare(header_, /*overwrite=*/false);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCannotCreate);
    EXPECT_THAT(error.hint(), HasSubstr("--repository"));
  }
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
