#include "train/run/initial_weights.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "shared/base/error.h"
#include "shared/model/classifier.h"
#include "shared/model/network_shape.h"
#include "shared/model/retinanet.h"
#include "tests/convert/random_checkpoint.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

constexpr std::uint64_t kSeed = 3;

// A model as retina-train has it before --init.
RetinaNet fresh_model(ModelConfig config, std::size_t class_count) {
  config.class_count = static_cast<int>(class_count);
  RetinaNet model(config);
  initialise(model, kSeed);
  return model;
}

Categories named(const std::vector<std::string>& names) {
  Categories categories;
  for (const std::string& name : names) {
    categories.push_back({.id = 50 - static_cast<std::int64_t>(categories.size()), .name = name});
  }
  return categories;
}

at::Tensor tensor_of(const NamedTensors& state, const std::string& name) {
  for (const auto& [own_name, tensor] : state) {
    if (own_name == name) return tensor;
  }
  throw std::out_of_range(name);
}

// The hint, or "accepted".
std::string refusal(const ModelConfig& config, const std::string& path) {
  try {
    check_initial_weights(path, config);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kConfig);
    return error.hint();
  }
  return "accepted";
}

TEST(InitialWeights, RowsGoToTheClassOfTheirNameAndOthersStayFresh) {
  const Checkpoint checkpoint = random_checkpoint(small_config(), 1);
  const auto categories = named({"stranger", "class 2", "class 0", "another"});
  RetinaNet model = fresh_model(small_config(), categories.size());
  load_initial_weights(model, checkpoint, categories, kSeed, "c.pt");

  for (const auto& [name, tensor] : state_of(model)) {
    for (const auto& item : checkpoint.model) {
      if (item.name != name || name.find("cls_logits") != std::string::npos) continue;
      EXPECT_TRUE(at::equal(tensor, item.tensor)) << name;
    }
  }
  for (const std::string layer : {"weight", "bias"}) {
    const std::string name = std::string("head.classification_head.cls_logits.") + layer;
    const at::Tensor got = tensor_of(state_of(model), name).reshape({9, 4, -1});
    const at::Tensor fresh = initial_value(model, name, kSeed).reshape({9, 4, -1});
    at::Tensor source;
    for (const auto& item : checkpoint.model) {
      if (item.name == name) source = item.tensor.reshape({9, 3, -1});
    }
    EXPECT_TRUE(at::equal(got.select(1, 0), fresh.select(1, 0)));
    EXPECT_TRUE(at::equal(got.select(1, 1), source.select(1, 2)));
    EXPECT_TRUE(at::equal(got.select(1, 2), source.select(1, 0)));
    EXPECT_TRUE(at::equal(got.select(1, 3), fresh.select(1, 3)));
  }
}

TEST(InitialWeights, AnImportedClassifierGivesItsBackboneToAnyHeads) {
  Checkpoint checkpoint = random_checkpoint(small_config(), 1);
  checkpoint.config_json.insert(checkpoint.config_json.size() - 1,
                                R"(,"import":{"backbone_only":true,"source":"r.pth"})");
  ModelConfig config = small_config();
  config.head_norm = HeadNorm::kNone;
  config.p6_from_c5 = false;
  RetinaNet model = fresh_model(config, 3);
  const NamedTensors before = state_of(fresh_model(config, 3));
  // Even rows of the same name are place holders.
  load_initial_weights(model, checkpoint, named({"class 0", "class 1", "class 2"}), kSeed, "c.pt");
  for (const auto& [name, tensor] : state_of(model)) {
    at::Tensor want = tensor_of(before, name);
    if (name.starts_with("backbone.body.")) {
      for (const auto& item : checkpoint.model) {
        if (item.name == name) want = item.tensor;
      }
    }
    EXPECT_TRUE(at::equal(tensor, want)) << name;
  }
}

TEST(InitialWeights, AnotherArchitectureNamesTheOptionsToGive) {
  ModelConfig theirs = small_config();
  theirs.head_norm = HeadNorm::kNone;
  theirs.p6_from_c5 = false;
  theirs.norm_eps = 0;
  const TestFolder folder;
  const std::string checkpoint = folder / "c.pt";
  save_checkpoint(checkpoint, random_checkpoint(theirs, 1));
  const std::string rest = "; what no option, recipe or size says follows --init";
  EXPECT_EQ(refusal(small_config(), checkpoint),
            "give --norm-eps 0 --head-norm none --p6 p5" + rest);
  EXPECT_EQ(refusal(theirs, checkpoint), "accepted");
  ModelConfig deeper = theirs;
  deeper.backbone = "resnet34";
  EXPECT_EQ(refusal(deeper, checkpoint), "give --backbone resnet18" + rest);
  ModelConfig narrow = theirs;
  narrow.fpn_channels = 64;
  narrow.head_convs = 2;
  EXPECT_EQ(refusal(narrow, checkpoint), "give --fpn-channels 256 --head-convs 4" + rest);
  ModelConfig single = theirs;
  single.anchors_per_location = 1;
  EXPECT_EQ(refusal(single, checkpoint), "give --anchors-per-location 9" + rest);
  // The norm's kind and image sizes are the run's own.
  ModelConfig frozen = theirs;
  frozen.norm = Norm::kFrozen;
  frozen.min_side_px = 64;
  EXPECT_EQ(refusal(frozen, checkpoint), "accepted");
}

TEST(InitialWeights, AnImportSaysWhatItGives) {
  const Checkpoint trained = random_checkpoint(small_config(), 1);
  const auto with = [&](const std::string& import) {
    std::string config = trained.config_json;
    config.insert(config.size() - 1,
                  R"(,"import":{"backbone_only":)" + import + R"(,"source":"r.pth"})");
    return initial_model_of(config, "c.pt");
  };
  EXPECT_TRUE(with("false").gives_all(Task::kDetection));
  EXPECT_FALSE(with("true").gives_all(Task::kDetection));
  EXPECT_FALSE(with("false").gives_all(Task::kClassification));
}

ModelConfig classifier_config(std::size_t class_count) {
  ModelConfig config;
  config.task = Task::kClassification;
  config.backbone = small_config().backbone;
  config.class_count = static_cast<int>(class_count);
  return config;
}

Checkpoint classifier_checkpoint(const std::vector<std::string>& names) {
  const auto network = make_classifier(classifier_config(names.size()));
  initialise(*network, kSeed + 1);
  Checkpoint checkpoint{.model = state_of(*network)};
  checkpoint.config_json = R"({"model":)" + network->config().to_json() + R"(,"train":{}})";
  checkpoint.categories = named(names);
  return checkpoint;
}

TEST(InitialWeights, AClassifierGivesADetectorItsResNet) {
  const Checkpoint checkpoint = classifier_checkpoint({"cat", "dog"});
  RetinaNet model = fresh_model(small_config(), 3);
  const NamedTensors before = state_of(fresh_model(small_config(), 3));
  load_initial_weights(model, checkpoint, named({"cat", "class 1", "class 2"}), kSeed, "c.pt");
  int taken = 0;
  for (const auto& [name, tensor] : state_of(model)) {
    const bool is_body = name.starts_with("backbone.body.");
    const at::Tensor want =
        is_body ? tensor_of(checkpoint.model, name.substr(14)) : tensor_of(before, name);
    taken += is_body ? 1 : 0;
    EXPECT_TRUE(at::equal(tensor, want)) << name;
  }
  EXPECT_EQ(taken, static_cast<int>(checkpoint.model.size()) - 2) << "all but fc";
}

TEST(InitialWeights, ADetectorGivesAClassifierItsResNet) {
  const Checkpoint checkpoint = random_checkpoint(small_config(), 1);
  const auto network = make_classifier(classifier_config(2));
  initialise(*network, kSeed);
  const at::Tensor fc = tensor_of(state_of(*network), "fc.weight").clone();
  load_initial_weights(*network, checkpoint, named({"cat", "dog"}), kSeed, "c.pt");
  for (const auto& [name, tensor] : state_of(*network)) {
    if (name.starts_with("fc.")) continue;
    EXPECT_TRUE(at::equal(tensor, tensor_of(checkpoint.model, "backbone.body." + name))) << name;
  }
  EXPECT_TRUE(at::equal(fc, tensor_of(state_of(*network), "fc.weight")));
}

// Whose body has other names in each.
TEST(InitialWeights, AMobileNetGoesFromAClassifierToADetectorAndBack) {
  ModelConfig config = classifier_config(2);
  config.backbone = "mobilenet_v3_large";
  const auto classifier = make_classifier(config);
  initialise(*classifier, kSeed + 1);
  Checkpoint checkpoint{.model = state_of(*classifier)};
  checkpoint.config_json = R"({"model":)" + config.to_json() + R"(,"train":{}})";
  checkpoint.categories = named({"cat", "dog"});
  ModelConfig detector = small_config();
  detector.backbone = config.backbone;
  detector.fpn_channels = 64;
  RetinaNet model = fresh_model(detector, 3);
  load_initial_weights(model, checkpoint, named({"cat", "class 1", "class 2"}), kSeed, "c.pt");
  const auto last = "16.1.running_var";
  EXPECT_TRUE(at::equal(tensor_of(state_of(model), "backbone.body.0.0.weight"),
                        tensor_of(checkpoint.model, "features.0.0.weight")));
  EXPECT_TRUE(at::equal(tensor_of(state_of(model), cat("backbone.body.", last)),
                        tensor_of(checkpoint.model, cat("features.", last))));

  const Checkpoint trained = random_checkpoint(detector, 1);
  const at::Tensor hidden = tensor_of(state_of(*classifier), "classifier.0.weight").clone();
  load_initial_weights(*classifier, trained, named({"cat", "dog"}), kSeed, "d.pt");
  EXPECT_TRUE(at::equal(tensor_of(state_of(*classifier), "features.7.block.1.0.weight"),
                        tensor_of(trained.model, "backbone.body.7.block.1.0.weight")));
  EXPECT_TRUE(at::equal(tensor_of(state_of(*classifier), "classifier.0.weight"), hidden));
}

TEST(InitialWeights, AClassifiersRowsGoToTheClassOfTheirName) {
  const Checkpoint checkpoint = classifier_checkpoint({"cat", "dog"});
  const auto network = make_classifier(classifier_config(3));
  initialise(*network, kSeed);
  load_initial_weights(*network, checkpoint, named({"dog", "bird", "cat"}), kSeed, "c.pt");
  const at::Tensor rows = tensor_of(state_of(*network), "fc.weight");
  const at::Tensor source = tensor_of(checkpoint.model, "fc.weight");
  EXPECT_TRUE(at::equal(rows[0], source[1]));
  EXPECT_TRUE(at::equal(rows[1], initial_value(*network, "fc.weight", kSeed)[1]));
  EXPECT_TRUE(at::equal(rows[2], source[0]));
}

TEST(InitialWeights, NoDetectorBuildsOnCifarCnn) {
  ModelConfig config = classifier_config(2);
  config.backbone = kCifarCnn;
  config.min_side_px = config.max_side_px = 32;
  Checkpoint checkpoint{.model = state_of(*make_classifier(config))};
  checkpoint.config_json = R"({"model":)" + config.to_json() + R"(,"train":{}})";
  checkpoint.categories = named({"cat", "dog"});
  const TestFolder folder;
  save_checkpoint(folder / "c.pt", checkpoint);
  EXPECT_EQ(refusal(small_config(), folder / "c.pt"), "give weights of a ResNet");
}

}  // namespace
}  // namespace retina
