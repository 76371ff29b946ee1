#include "convert/import/import.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <optional>

#include "convert/convert.h"
#include "convert/import/categories.h"
#include "convert/options.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/checkpoint/checkpoint.h"
#include "shared/model/config.h"
#include "tests/convert/random_checkpoint.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;

constexpr const char* kClassWeight = "head.classification_head.cls_logits.weight";
constexpr const char* kBody = "backbone.body.";

ModelConfig v1_config(int class_count) {
  ModelConfig config = small_config();
  config.norm = Norm::kFrozen;
  config.head_norm = HeadNorm::kNone;
  config.p6_from_c5 = false;
  config.class_count = class_count;
  return config;
}

std::map<std::string, at::Tensor> by_name(const NamedTensors& tensors) {
  std::map<std::string, at::Tensor> named;
  for (const auto& [name, tensor] : tensors) named.emplace(name, tensor);
  return named;
}

// All tensors but the class layer have the same names and bits.
void expect_same_but_classes(const Checkpoint& got, const Checkpoint& want) {
  const auto expected = by_name(want.model);
  ASSERT_EQ(got.model.size(), want.model.size());
  for (const auto& [name, tensor] : got.model) {
    ASSERT_TRUE(expected.contains(name)) << name;
    if (name.find("cls_logits") != std::string::npos) continue;
    EXPECT_TRUE(at::equal(tensor, expected.at(name))) << name;
  }
}

ModelConfig config_of(const Checkpoint& checkpoint) {
  const JsonFile config = JsonFile::parse(checkpoint.config_json, "config");
  return ModelConfig::from_json(config.root().at("model"));
}

class Import : public testing::Test {
 protected:
  ConvertOptions write(const NamedTensors& tensors, bool legacy = false) {
    write_file_atomically(weights_, pth_of(tensors, legacy));
    ConvertOptions options;
    options.weights = weights_;
    options.output = output_;
    return options;
  }
  std::string annotations(const std::vector<int>& ids) {
    JsonWriter json;
    json.begin_object().key("images").begin_array().begin_object();
    json.field("id", 1).field("file_name", "a.jpg").field("width", 8).field("height", 8);
    json.end_object().end_array().key("annotations").begin_array().end_array();
    json.key("categories").begin_array();
    for (const int id : ids) {
      json.begin_object().field("id", id).field("name", cat("class ", id)).end_object();
    }
    write_file_atomically(folder_ / "a.json", json.end_array().end_object().text());
    return folder_ / "a.json";
  }
  std::string refusal(const ConvertOptions& options, ErrorKind kind) {
    const std::string words = refusal_of(kind, [&] { import_weights(options.import_options()); });
    EXPECT_FALSE(path_exists(output_ + ".tmp"));
    return words;
  }
  // What is imported of `tensors` with three classes.
  Checkpoint imported(const NamedTensors& tensors) {
    ConvertOptions options = write(tensors);
    options.overwrite = true;
    options.categories = annotations({1, 2, 9});
    import_weights(options.import_options());
    return load_checkpoint(output_);
  }
  const TestFolder folder_;
  const std::string weights_ = folder_ / "w.pth", output_ = folder_ / "c.pt";
};

TEST_F(Import, AV1DetectorInEitherFormatKeepsTheRowsAfterItsBackground) {
  const Checkpoint source = random_checkpoint(v1_config(4), 5);
  for (const bool legacy : {false, true}) {
    ConvertOptions options = write(source.model, legacy);
    options.categories = annotations({7, 3, 5});
    options.overwrite = true;
    EXPECT_THAT(import_weights(options.import_options()), HasSubstr("3 classes (of 4 rows)"));

    const Checkpoint imported = load_checkpoint(output_);
    expect_same_but_classes(imported, source);
    const at::Tensor want = by_name(source.model).at(kClassWeight).view({9, 4, -1});
    const at::Tensor got = by_name(imported.model).at(kClassWeight).view({9, 3, -1});
    EXPECT_TRUE(at::equal(got, want.slice(1, 1)));
    ASSERT_EQ(imported.categories.size(), 3U);
    EXPECT_EQ(imported.categories[0].name, "class 3");
    EXPECT_EQ(config_of(imported).norm, Norm::kFrozen);
    EXPECT_EQ(config_of(imported).norm_eps, 1e-5);
    EXPECT_EQ(config_of(imported).anchor_sizes, (std::vector<double>{32, 64, 128, 256, 512}));
    remove_file(output_);
  }
}

TEST_F(Import, NinetyOneRowsBecomeCocosEightyClassesWithEpsilonZero) {
  const Checkpoint source = random_checkpoint(v1_config(91), 6);
  const ConvertOptions options = write(source.model);
  EXPECT_THAT(import_weights(options.import_options()),
              HasSubstr("80 classes (of 91 rows), batch norm epsilon 0"));
  const Checkpoint imported = load_checkpoint(output_);
  ASSERT_EQ(imported.categories.size(), 80U);
  const at::Tensor want = by_name(source.model).at(kClassWeight).view({9, 91, -1});
  const at::Tensor got = by_name(imported.model).at(kClassWeight).view({9, 80, -1});
  for (std::int64_t label = 0; label < 80; ++label) {
    const std::int64_t id = imported.categories[static_cast<std::size_t>(label)].id;
    EXPECT_TRUE(at::equal(got.select(1, label), want.select(1, id))) << label;
  }
  EXPECT_EQ(config_of(imported).norm_eps, 0);
  // retina-train --init NAME asks of what it is an import.
  const JsonFile config = JsonFile::parse(imported.config_json, "config");
  EXPECT_EQ(config.root().at("import").at("source").as_string(), "w.pth");
  EXPECT_EQ(config.root().at("import").at("holds").as_string(),
            "resnet18 RetinaNet of torchvision's v1 kind, 80 classes (of 91 rows), batch norm "
            "epsilon 0");

  EXPECT_THAT(import_weights(options.import_options()), HasSubstr("already exists"));
  ConvertOptions other = options;
  other.norm_eps = 1e-5;
  EXPECT_THAT(refusal(other, ErrorKind::kConfig),
              HasSubstr("other weights, categories or options"));
  other.overwrite = true;
  import_weights(other.import_options());
  EXPECT_EQ(config_of(load_checkpoint(output_)).norm_eps, 1e-5);

  write_file_atomically(output_, "precious");
  EXPECT_THAT(refusal(other, ErrorKind::kCannotCreate), HasSubstr("not ours to replace"));
  EXPECT_EQ(read_file(output_), "precious");
}

TEST_F(Import, WrappersPrefixesAndAnAveragesCounterAreTakenOff) {
  for (const ModelConfig& config : {small_config(), v1_config(3)}) {
    const Checkpoint source = random_checkpoint(config, 7);
    NamedTensors wrapped = {{"n_averaged", at::scalar_tensor(7, at::kLong)}};
    for (const auto& [name, tensor] : source.model) wrapped.push_back({"module." + name, tensor});
    const Checkpoint got = imported(wrapped);
    expect_same_but_classes(got, source);
    EXPECT_EQ(config_of(got).head_norm, config.head_norm);
    EXPECT_EQ(config_of(got).p6_from_c5, config.p6_from_c5);
    EXPECT_EQ(config_of(got).norm, config.norm);
  }
}

TEST_F(Import, NumbersThatNoWeightsHaveAreRefusedWithTheirTensor) {
  using Change = std::function<void(at::Tensor&)>;
  const auto fill = [](double value) {
    return [value](at::Tensor& tensor) { tensor.select(0, 3).fill_(value); };
  };
  const std::string not_finite = "has values that are not finite (got 576 of 73728 ";
  const std::tuple<std::string, Change, std::string> cases[] = {
      {"layer2.0.conv1.weight", fill(std::nan("")), not_finite},
      {"layer2.0.conv1.weight", fill(HUGE_VAL), not_finite},
      {"layer2.0.conv1.weight", fill(-HUGE_VAL), not_finite},
      {"conv1.weight", [](at::Tensor& tensor) { tensor = tensor.to(at::kLong); }, "has integers"},
      {"bn1.running_var", fill(-0.5), "has values below 0"}};
  for (const auto& [name, change, words] : cases) {
    Checkpoint source = random_checkpoint(v1_config(91), 6);
    for (auto& [other, tensor] : source.model) {
      if (other == kBody + name) change(tensor);
    }
    EXPECT_THAT(refusal(write(source.model), ErrorKind::kData),
                HasSubstr(cat("tensor ", kBody, name, " ", words)));
  }
}

// Names before torchvision 0.13, as its published v1 file still has them.
std::string older_name(const std::string& name) {
  std::string older = name;
  for (int layer = 3; layer >= 0; --layer) {
    const std::string now = cat("_head.conv.", layer, ".0.");
    const std::size_t place = older.find(now);
    if (place != std::string::npos) {
      return older.replace(place, now.size(), cat("_head.conv.", 2 * layer, "."));
    }
  }
  for (int level = 0; level < 3; ++level) {
    const std::string now = cat("_blocks.", level, ".0.");
    const std::size_t place = older.find(now);
    if (older.starts_with("backbone.fpn.") && place != std::string::npos) {
      return older.replace(place, now.size(), cat("_blocks.", level, "."));
    }
  }
  return older;
}

TEST_F(Import, NamesOfOlderTorchvisionAreRenamed) {
  const Checkpoint source = random_checkpoint(v1_config(3), 8);
  NamedTensors older;
  std::size_t renamed = 0;
  for (const auto& [name, tensor] : source.model) {
    older.push_back({older_name(name), tensor});
    renamed += older.back().name == name ? 0 : 1;
  }
  EXPECT_EQ(renamed, 28U);  // 2 towers of 4, 2 blocks of 3, weight and bias each
  expect_same_but_classes(imported(older), source);
}

TEST_F(Import, ABackboneIsToStartATrainingFrom) {
  NamedTensors classifier = random_checkpoint(small_classifier_config(), 9).model;
  EXPECT_THAT(
      import_weights(write(classifier).import_options()),
      HasSubstr(cat("resnet18 backbone; pyramid and heads are randomly initialised: train with "
                    "retina-train --init ",
                    output_)));
  ConvertOptions served;
  served.checkpoint = output_;
  served.output = output_ + ".model";
  EXPECT_THROW(convert(served), Error) << "its heads are place holders";

  classifier.push_back({"rpn.head.conv.weight", at::rand({1})});
  ConvertOptions other = write(classifier);
  other.overwrite = true;
  EXPECT_THAT(refusal(other, ErrorKind::kData), HasSubstr("rpn.head.conv.weight"));
}

TEST_F(Import, ADetectorOfAnyBackboneWidthAndDepth) {
  for (const auto& [backbone, channels, convs, anchors] :
       {std::tuple{"mobilenet_v3_large", 64, 2, 9},
        {"regnet_x_400mf", 128, 1, 1},
        {"resnext50_32x4d", 256, 4, 9},
        {"wide_resnet50_2", 96, 3, 1}}) {
    SCOPED_TRACE(backbone);
    ModelConfig config = small_config();
    config.backbone = backbone;
    config.class_count = 3;
    config.fpn_channels = channels;
    config.head_convs = convs;
    config.anchors_per_location = anchors;
    config.p6_from_c5 = channels == 64;
    const Checkpoint source = random_checkpoint(config, 8);
    const Checkpoint checkpoint = imported(source.model);
    expect_same_but_classes(checkpoint, source);
    const ModelConfig got = config_of(checkpoint);
    EXPECT_EQ(got.backbone, backbone);
    EXPECT_EQ(got.fpn_channels, channels);
    EXPECT_EQ(got.head_convs, convs);
    EXPECT_EQ(got.anchors_per_location, anchors);
    EXPECT_EQ(got.p6_from_c5, config.p6_from_c5);
  }
}

class ImportClassifier : public Import {
 protected:
  // The checkpoint's tensors as torchvision's file has them; `prefix` is a wrapper's.
  ConvertOptions write_classifier(const NamedTensors& tensors, const std::string& prefix = "") {
    NamedTensors renamed;
    for (const auto& [name, tensor] : tensors) renamed.push_back({prefix + name, tensor});
    ConvertOptions options = write(renamed);
    options.import_task = Task::kClassification;
    return options;
  }
  std::string names(const std::string& text) {
    write_file_atomically(folder_ / "names.txt", text);
    return folder_ / "names.txt";
  }
  const Checkpoint source_ = random_checkpoint(small_classifier_config(), 9);
};

// With its last layers, and of it the body alone for a detector, whose MobileNetV3 has no
// "features.".
TEST_F(ImportClassifier, TakesEveryFamily) {
  for (const char* backbone :
       {"resnet18", "resnext50_32x4d", "regnet_x_400mf", "mobilenet_v3_large"}) {
    SCOPED_TRACE(backbone);
    const Checkpoint source = random_checkpoint(small_classifier_config(backbone), 9);
    ConvertOptions options = write_classifier(source.model, "module.");
    options.overwrite = true;
    options.categories = names("tench\nshark\nfox\n");
    import_weights(options.import_options());
    const Checkpoint whole = load_checkpoint(output_);
    const auto want = by_name(source.model);
    expect_same_but_classes(whole, source);
    const bool is_mobile = backbone == std::string("mobilenet_v3_large");
    EXPECT_EQ(config_of(whole).norm_eps, is_mobile ? 1e-3 : 1e-5);

    ConvertOptions body = write(source.model);
    body.overwrite = true;
    EXPECT_THAT(import_weights(body.import_options()), HasSubstr(cat(backbone, " backbone; ")));
    const Checkpoint detector = load_checkpoint(output_);
    EXPECT_EQ(config_of(detector).norm_eps, is_mobile ? 1e-3 : 1e-5);
    std::size_t compared = 0;
    for (const auto& [name, tensor] : detector.model) {
      if (!name.starts_with(kBody)) continue;
      const std::string own = name.substr(std::string(kBody).size());
      EXPECT_TRUE(at::equal(tensor, want.at(is_mobile ? "features." + own : own))) << name;
      ++compared;
    }
    EXPECT_EQ(compared, want.size() - (is_mobile ? 4 : 2)) << "all but the dense layers";
  }
}

TEST_F(ImportClassifier, KeepsEveryTensorAndAllRowsUnderTheNamesOfAText) {
  ConvertOptions options = write_classifier(source_.model, "module.");
  options.categories = names("\xEF\xBB\xBFn01440764 tench\r\n\n  great white shark \nfox");
  EXPECT_THAT(import_weights(options.import_options()),
              HasSubstr("resnet18 classifier, 3 classes, batch norm epsilon 1e-05"));
  const Checkpoint imported = load_checkpoint(output_);
  expect_same_but_classes(imported, source_);
  ASSERT_EQ(imported.categories.size(), 3U);
  EXPECT_EQ(imported.categories[0].name, "n01440764");
  EXPECT_EQ(imported.categories[1].name, "great white shark");
  EXPECT_EQ(imported.categories[2].id, 3);
  const ModelConfig config = config_of(imported);
  EXPECT_EQ(config.task, Task::kClassification);
  EXPECT_EQ(config.min_side_px, 224);
  EXPECT_EQ(config.max_side_px, 256);

  EXPECT_THAT(import_weights(options.import_options()), HasSubstr("already exists"));
  ConvertOptions other = options;
  other.max_side_px = 232;
  EXPECT_THAT(refusal(other, ErrorKind::kConfig),
              HasSubstr("other weights, categories or options"));
  other = options;
  other.import_task = Task::kDetection;
  EXPECT_THAT(refusal(other, ErrorKind::kConfig),
              HasSubstr("other weights, categories or options"));

  ConvertOptions served;
  served.checkpoint = output_;
  served.output = output_ + ".model";
  served.verification_image_count = 1;
  EXPECT_THAT(convert(served), HasSubstr("the same best class on 1"));

  other = options;
  other.overwrite = true;
  other.categories = annotations({7, 3, 5});  // in the order of their ids
  import_weights(other.import_options());
  EXPECT_EQ(load_checkpoint(output_).categories[0].name, "class 3");
  EXPECT_EQ(load_checkpoint(output_).categories[2].id, 7);
}

TEST_F(ImportClassifier, WithoutANameForEachRowIsRefused) {
  ConvertOptions options = write_classifier(source_.model);
  EXPECT_THAT(refusal(options, ErrorKind::kConfig),
              HasSubstr("the names of its 3 classes are unknown"));
  options.categories = names("a\nb\n");
  EXPECT_THAT(refusal(options, ErrorKind::kConfig), HasSubstr("(got 2 names)"));
  options.categories = names("\n \n");
  EXPECT_THAT(refusal(options, ErrorKind::kData), HasSubstr("got a blank file"));
  options.categories = names("{\n");
  EXPECT_THAT(refusal(options, ErrorKind::kData), HasSubstr("names.txt"));
  EXPECT_FALSE(path_exists(output_));
}

TEST_F(ImportClassifier, WhatIsNotAClassifierIsNamed) {
  const std::string classes = names("a\nb\nc\n");
  const auto refused = [&](const NamedTensors& tensors) {
    ConvertOptions options = write_classifier(tensors);
    options.categories = classes;
    return refusal(options, ErrorKind::kData);
  };
  EXPECT_THAT(refused(random_checkpoint(v1_config(3), 9).model), HasSubstr("is a detector"));
  NamedTensors bare = source_.model;
  std::erase_if(bare, [](const auto& item) { return item.name.starts_with("fc."); });
  EXPECT_THAT(refused(bare), HasSubstr("has no last layer (fc.weight"));
  bare.push_back({"fc.weight", at::zeros({3})});
  EXPECT_THAT(refused(bare), HasSubstr("has no last layer (fc.weight"));
  bare.back().tensor = at::zeros({3, 7});
  EXPECT_THAT(refused(bare), HasSubstr("fc.weight"));
  NamedTensors more = source_.model;
  more.push_back({"rpn.head.conv.weight", at::rand({1})});
  EXPECT_THAT(refused(more), HasSubstr("rpn.head.conv.weight"));
}

TEST_F(Import, ClassesThatDoNotFitAreNamed) {
  const Checkpoint source = random_checkpoint(v1_config(3), 10);
  ConvertOptions options = write(source.model);
  EXPECT_THAT(refusal(options, ErrorKind::kConfig),
              HasSubstr("the names of its 3 classes are unknown"));
  options.categories = annotations({1, 2, 3, 4, 9});
  EXPECT_THAT(refusal(options, ErrorKind::kConfig), HasSubstr("got 5 categories"));
}

TEST_F(Import, AMissingOrMisshapenTensorIsNamed) {
  const std::string class_bias = "head.classification_head.cls_logits.bias";
  const NamedTensors good = random_checkpoint(v1_config(3), 11).model;
  const std::string last = good.back().name;
  using Shape = std::vector<std::int64_t>;
  for (const auto& [name, shape] :
       {std::pair<std::string, std::optional<Shape>>{last, std::nullopt},
        {last, Shape{7}},
        {class_bias, Shape{}},
        {class_bias, Shape{10}},
        {class_bias, Shape{9}}}) {
    NamedTensors changed = good;
    std::erase_if(changed, [&](const auto& item) { return item.name == name; });
    if (shape) changed.push_back({name, at::rand(*shape)});
    ConvertOptions options = write(changed);
    options.categories = annotations({1, 2, 9});
    EXPECT_THAT(refusal(options, ErrorKind::kData), HasSubstr(name));
  }
}

TEST_F(Import, EpsilonZeroNeedsVariances) {
  Checkpoint source = random_checkpoint(v1_config(91), 12);
  for (auto& [name, tensor] : source.model) {
    if (name == "backbone.body.bn1.running_var") tensor[3] = 0;
  }
  ConvertOptions options = write(source.model);
  EXPECT_THAT(refusal(options, ErrorKind::kConfig), HasSubstr("bn1.running_var"));
  options.norm_eps = 1e-5;
  EXPECT_EQ(refusal(options, ErrorKind::kConfig), "accepted");
}

TEST(ClassRows, FollowIdsOrOrderOrABackgroundRow) {
  const CategoryMap gaps({{9, "c"}, {2, "a"}, {5, "b"}});
  using Rows = std::vector<std::int64_t>;
  EXPECT_EQ(fit_class_rows(10, gaps, "w", "a.json").rows, (Rows{2, 5, 9}));
  EXPECT_EQ(fit_class_rows(3, gaps, "w", "a.json").rows, (Rows{0, 1, 2}));
  EXPECT_EQ(fit_class_rows(4, gaps, "w", "a.json").rows, (Rows{1, 2, 3}));
  const CategoryMap dense({{0, "a"}, {1, "b"}});
  EXPECT_EQ(fit_class_rows(2, dense, "w", "a.json").rows, (Rows{0, 1}));
  EXPECT_THROW(fit_class_rows(11, gaps, "w", "a.json"), Error);
}

}  // namespace
}  // namespace retina
