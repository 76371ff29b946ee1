// What an inference model may hold: what the writer writes and nothing else.
#include "shared/onnx/onnx_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/onnx/onnx_file.h"
#include "tests/onnx/small_model.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string difference(const OnnxPattern& pattern, const onnx::ModelProto& model) {
  return pattern.difference(sealed(model.SerializeAsString())).value_or("accepted");
}

void expect_accepted(const InferenceHeader& header) {
  const std::string file = sealed(small_model(header).bytes);
  const OnnxPattern pattern(header, "m.onnx");
  EXPECT_EQ(pattern.difference(file).value_or("accepted"), "accepted") << header.to_json();
  EXPECT_EQ(pattern.file_bytes(), file.size());
  EXPECT_EQ(check_onnx_model(file, "m.onnx").to_json(), header.to_json());
}

ModelConfig second_version() {
  ModelConfig config = detector_config();
  config.head_norm = HeadNorm::kGroup;
  config.p6_from_c5 = true;
  config.anchor_offset = 0.5;
  return config;
}

TEST(OnnxCheck, AcceptsWhatTheWriterWrites) {
  for (const bool postprocess : {true, false}) {
    for (const std::optional<PixelSize> image :
         {std::optional<PixelSize>(), std::optional(PixelSize{.height = 70, .width = 90})}) {
      for (const ModelConfig& config : {detector_config(), second_version()}) {
        expect_accepted(header_of(
            config, {.weights = WeightType::kInt8, .image = image, .postprocess = postprocess}));
      }
    }
  }
  expect_accepted(header_of(second_version(), {.weights = WeightType::kF32}));
  expect_accepted(header_of(detector_config(), {.weights = WeightType::kF16}));
  for (const WeightType weights : {WeightType::kF32, WeightType::kF16, WeightType::kInt8}) {
    for (const char* backbone : {"cifar-cnn", "resnet18", "mobilenet_v3_large"}) {
      expect_accepted(header_of(classifier_config(backbone), {.weights = weights}));
    }
  }
  for (const char* backbone : {"resnet50", "resnet101", "resnext50_32x4d", "wide_resnet50_2",
                               "regnet_x_400mf", "mobilenet_v3_large"}) {
    expect_accepted(header_of(detector_config(backbone), {.weights = WeightType::kInt8}));
  }
  for (HeadNorm norm : {HeadNorm::kGroup, HeadNorm::kNone}) {
    ModelConfig config = detector_config();
    config.fpn_channels = 64;
    config.head_convs = 1;
    config.anchors_per_location = norm == HeadNorm::kGroup ? 1 : 9;
    config.head_norm = norm;
    expect_accepted(header_of(config, {.weights = WeightType::kInt8}));
  }
  for (const int class_count : {1, 80}) {
    ModelConfig config = detector_config();
    config.class_count = class_count;
    expect_accepted(header_of(config, {.weights = WeightType::kInt8}));
  }
  // Names as people have them.
  InferenceHeader header = header_of(classifier_config());
  header.categories[0].name = "";
  header.categories[1].name = "two\nlines, \"quotes\" and \x01";
  header.categories[2].name = "caf\xc3\xa9 \xf0\x9f\x90\x95";
  header.categories[2].id = -5;
  expect_accepted(header);
}

// --- What is refused ----------------------------------------------------------------------------

bool is_constant(const std::string& tensor) {
  return tensor.starts_with("integer") || tensor.starts_with("number") ||
         tensor.starts_with("normalisation");
}

// Constants, nodes, names and whatever else is around them count to the last bit, trained numbers
// do not.
TEST(OnnxCheck, EveryByteButTrainedNumbersCounts) {
  for (const WeightType weights : {WeightType::kF32, WeightType::kF16, WeightType::kInt8}) {
    ModelConfig config = classifier_config();
    config.min_side_px = config.max_side_px = 10;
    const InferenceHeader header = header_of(config, {.weights = weights});
    const OnnxPattern pattern(header, "m.onnx");
    std::string file = sealed(small_model(header).bytes);
    std::vector<bool> is_trained(file.size());
    std::size_t place = 0, trained_count = 0;
    const onnx::ModelProto model = as_message(file);
    for (const onnx::TensorProto& tensor : model.graph().initializer()) {
      place = file.find(tensor.raw_data(), file.find(tensor.name(), place));
      if (is_constant(tensor.name())) continue;
      std::fill_n(is_trained.begin() + static_cast<std::ptrdiff_t>(place), tensor.raw_data().size(),
                  true);
      ++trained_count;
    }
    EXPECT_GT(trained_count, 10U);
    const std::size_t end = file.size() - kOnnxSealBytes;
    std::size_t flip_count = 0;
    for (std::size_t at = 0; at < end; at += is_trained[at] ? 997 : 1) {
      file[at] = static_cast<char>(file[at] ^ 4);
      const bool is_accepted = !pattern.difference(file);
      file[at] = static_cast<char>(file[at] ^ 4);
      ASSERT_EQ(is_accepted, is_trained[at]) << "at " << at;
      flip_count += is_trained[at] ? 0 : 1;
    }
    EXPECT_GT(flip_count, 5000U);
  }
}

TEST(OnnxCheck, APartThatDiffersIsNamed) {
  const InferenceHeader header = header_of(detector_config(), {.weights = WeightType::kInt8});
  const OnnxPattern pattern(header, "m.onnx");
  onnx::ModelProto model = as_message(small_model(header).bytes);
  EXPECT_EQ(difference(pattern, model), "accepted");
  auto& tensors = *model.mutable_graph()->mutable_initializer();
  tensors.DeleteSubrange(10, tensors.size() - 10);  // most of 20 MB, behind what is changed
  using Change = std::function<void(onnx::ModelProto&, onnx::GraphProto&)>;
  const std::string node = cat("node ", model.graph().node(3).name());
  const std::string tensor = cat("tensor ", model.graph().initializer(3).name());
  const std::pair<std::string, Change> changes[] = {
      {node, [](auto&, auto& graph) { graph.mutable_node(3)->set_op_type("Loop"); }},
      {node, [](auto&, auto& graph) { graph.mutable_node(3)->set_domain("com.example"); }},
      {node, [](auto&, auto& graph) { graph.mutable_node(3)->add_input("images"); }},
      {node, [](auto&, auto& graph) { graph.mutable_node(3)->set_doc_string("hidden"); }},
      {node,
       [](auto&, auto& graph) {
         onnx::AttributeProto& inner = *graph.mutable_node(3)->add_attribute();
         inner.set_type(onnx::AttributeProto::GRAPH);
         inner.mutable_g()->set_name("hidden");
       }},
      {node, [](auto&, auto& graph) { graph.mutable_node()->SwapElements(3, 4); }},
      {node, [](auto&, auto& graph) { graph.mutable_node()->DeleteSubrange(3, 1); }},
      {"graph's name", [](auto&, auto& graph) { *graph.add_node() = graph.node(3); }},
      {"graph's name", [](auto&, auto& graph) { graph.set_name("other"); }},
      {tensor, [](auto&, auto& graph) { graph.mutable_initializer(3)->set_name("other"); }},
      {tensor, [](auto&, auto& graph) { graph.mutable_initializer(3)->add_dims(1); }},
      {tensor, [](auto&, auto& graph) { graph.mutable_initializer(3)->add_float_data(1); }},
      {tensor,
       [](auto&, auto& graph) {
         graph.mutable_initializer(3)->set_data_location(onnx::TensorProto::EXTERNAL);
         graph.mutable_initializer(3)->add_external_data()->set_key("location");
       }},
      {"field 1 ", [](auto& other, auto&) { other.set_ir_version(9); }},
      {"field 6 ", [](auto& other, auto&) { other.set_domain("x"); }}};
  for (const auto& [part, change] : changes) {
    onnx::ModelProto other = model;
    change(other, *other.mutable_graph());
    EXPECT_THAT(difference(pattern, other), StartsWith("its " + part));
  }
}

TEST(OnnxCheck, NothingMayBeAddedOrMissing) {
  const InferenceHeader header = header_of(classifier_config());
  const OnnxPattern pattern(header, "m.onnx");
  const onnx::ModelProto model = as_message(small_model(header).bytes);
  using Change = std::function<void(onnx::ModelProto&, onnx::GraphProto&)>;
  const Change changes[] = {[](auto&, auto& graph) { graph.mutable_output()->RemoveLast(); },
                            [](auto&, auto& graph) { graph.add_input()->set_name("more"); },
                            [](auto&, auto& graph) { graph.add_output()->set_name("more"); },
                            [](auto&, auto& graph) { graph.add_value_info()->set_name("x"); },
                            [](auto&, auto& graph) { graph.add_sparse_initializer(); },
                            [](auto&, auto& graph) { graph.set_doc_string("other"); },
                            [](auto& other, auto&) { other.add_opset_import()->set_version(1); },
                            [](auto& other, auto&) { other.add_metadata_props()->set_key("more"); },
                            [](auto& other, auto&) { other.add_functions()->set_name("f"); },
                            [](auto& other, auto&) { other.clear_graph(); }};
  for (const Change& change : changes) {
    onnx::ModelProto other = model;
    change(other, *other.mutable_graph());
    EXPECT_NE(difference(pattern, other), "accepted");
  }
}

// The same message in other bytes: parsers read it alike, and it is not what the writer writes.
TEST(OnnxCheck, TheSameFieldsEncodedOtherwiseAreRefused) {
  const InferenceHeader header = header_of(classifier_config());
  const std::string model = small_model(header).bytes;
  const OnnxPattern pattern(header, "m.onnx");
  std::string longer = model;
  longer.replace(1, 1, std::string("\x88\x00", 2));  // ir_version 8 in two bytes
  for (const std::string& bytes :
       {longer, model + std::string("\x08\x08", 2), model + std::string("\x3a\x00", 2),
        model.substr(0, model.size() - 1), std::string()}) {
    EXPECT_NE(pattern.difference(sealed(bytes)).value_or("accepted"), "accepted");
  }
}

TEST(OnnxCheck, AHeaderThatNoModelHasIsRefused) {
  const std::pair<const char*, std::function<void(InferenceHeader&)>> changes[] = {
      {"m.onnx: config", [](auto& header) { header.config_json = "{}"; }},
      {"two tasks", [](auto& header) { header.task = Task::kClassification; }},
      {"2 names of 3 classes", [](auto& header) { header.categories.pop_back(); }},
      {"score threshold", [](auto& header) { header.score_threshold = 1.5; }},
      {"max detections", [](auto& header) { header.max_detections = 2'000'000'000; }},
      {"its form", [](auto& header) {
         header = header_of(classifier_config());
         header.form.postprocess = false;
       }}};
  for (const auto& [words, change] : changes) {
    InferenceHeader header = header_of(detector_config());
    change(header);
    EXPECT_THAT(refusal_of(ErrorKind::kData, [&] { const OnnxPattern pattern(header, "m.onnx"); }),
                HasSubstr(words));
  }
}

// --- Files --------------------------------------------------------------------------------------

TEST(OnnxCheck, AFileIsItsModelOrDamagedOrForeign) {
  const TestFolder folder;
  const InferenceHeader header = header_of(classifier_config());
  const std::string file = sealed(small_model(header).bytes);
  const auto refusal = [&](const std::string& bytes) {
    write_file_atomically(folder / "m.onnx", bytes);
    return refusal_of(ErrorKind::kData, [&] { read_onnx_model(folder / "m.onnx"); });
  };
  EXPECT_EQ(refusal(file), "accepted");
  EXPECT_EQ(read_onnx_model(folder / "m.onnx").bytes, file);
  EXPECT_THAT(refusal(sealed(small_model(header).bytes + std::string("\x72\x02\x0a\x00", 4))),
              HasSubstr("does not end as"));
  onnx::ModelProto model = as_message(small_model(header).bytes);
  model.mutable_graph()->mutable_node(3)->set_op_type("Loop");
  EXPECT_THAT(refusal(sealed(model.SerializeAsString())), HasSubstr("m.onnx: its node "));
  EXPECT_THAT(refusal(model.SerializeAsString()), HasSubstr("its seal is missing"));
  for (const std::size_t place :
       {std::size_t{1}, std::size_t{100}, file.size() / 2, file.find("\"format_version\""),
        file.find("class 1"), file.find("cifar-cnn"), file.size() - 60}) {
    std::string bytes = file;
    bytes.at(place) = static_cast<char>(bytes[place] ^ 2);
    EXPECT_THAT(refusal(bytes), HasSubstr("damaged or changed")) << "flipped at " << place;
  }
  for (const std::size_t size : {file.size() - 1, file.size() - 40, file.size() / 2}) {
    EXPECT_THAT(refusal(file.substr(0, size)), HasSubstr("cut short")) << "cut to " << size;
  }
  // As other tools save a model: the seal is there, and no longer that of the content.
  model = as_message(file);
  model.set_producer_name("another tool");
  EXPECT_THAT(refusal(model.SerializeAsString()), HasSubstr("damaged or changed"));
}

TEST(OnnxCheck, NamesHaveALineEach) {
  InferenceHeader header = header_of(classifier_config());
  header.categories.front().name = "two\nlines";
  const onnx::ModelProto model = as_message(small_model(header).bytes);
  EXPECT_EQ(model.metadata_props(1).key(), "names");
  EXPECT_THAT(model.metadata_props(1).value(), StartsWith("two\\nlines\n"));
}

}  // namespace
}  // namespace retina
