// What an inference model may hold: what the writer writes and nothing else.
#include "shared/onnx/onnx_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/onnx/onnx_file.h"
#include "shared/onnx/wire.h"
#include "tests/onnx/small_model.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

std::string difference(const InferenceHeader& header, const onnx::ModelProto& model) {
  return OnnxPattern(header, "m.onnx")
      .difference(sealed(model.SerializeAsString()))
      .value_or("accepted");
}

// --- What is accepted ---------------------------------------------------------------------------

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
}

TEST(OnnxCheck, AcceptsDeepNetworksAndAnyClasses) {
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

// --- Every node, one change each ----------------------------------------------------------------

using NodeChange = std::function<bool(onnx::NodeProto&)>;  // false: not for this node

bool change_attribute(onnx::NodeProto& node) {
  if (node.attribute().empty()) return false;
  onnx::AttributeProto& attribute = *node.mutable_attribute(node.attribute_size() - 1);
  switch (attribute.type()) {
    case onnx::AttributeProto::INT:
      attribute.set_i(std::int64_t{1} << 40);
      return true;
    case onnx::AttributeProto::INTS:
      attribute.set_ints(0, attribute.ints(0) + 1);
      return true;
    case onnx::AttributeProto::FLOAT:
      attribute.set_f(attribute.f() + 1);
      return true;
    default:
      attribute.set_s("other");
      return true;
  }
}

const std::pair<const char*, NodeChange> kNodeChanges[] = {
    {"operator", [](onnx::NodeProto& node) { return node.set_op_type("Loop"), true; }},
    {"domain", [](onnx::NodeProto& node) { return node.set_domain("com.example"), true; }},
    {"name", [](onnx::NodeProto& node) { return node.set_name("other"), true; }},
    {"text", [](onnx::NodeProto& node) { return node.set_doc_string("hidden"), true; }},
    {"first edge", [](onnx::NodeProto& node) { return node.set_input(0, "images2"), true; }},
    {"last edge",
     [](onnx::NodeProto& node) { return node.set_input(node.input_size() - 1, "x"), true; }},
    {"one more input", [](onnx::NodeProto& node) { return node.add_input("images"), true; }},
    {"output", [](onnx::NodeProto& node) { return node.set_output(0, "other"), true; }},
    {"one more output", [](onnx::NodeProto& node) { return node.add_output("other"), true; }},
    {"attribute", change_attribute},
    {"attribute's name",
     [](onnx::NodeProto& node) {
       if (node.attribute().empty()) return false;
       node.mutable_attribute(0)->set_name("other");
       return true;
     }},
    {"attribute less",
     [](onnx::NodeProto& node) {
       if (node.attribute().empty()) return false;
       node.mutable_attribute()->RemoveLast();
       return true;
     }},
    {"a graph inside",
     [](onnx::NodeProto& node) {
       onnx::AttributeProto& inner = *node.add_attribute();
       inner.set_name("body");
       inner.set_type(onnx::AttributeProto::GRAPH);
       inner.mutable_g()->set_name("hidden");
       return true;
     }},
};

TEST(OnnxCheck, AChangeOfAnyNodeIsNamed) {
  for (const InferenceHeader& header :
       {header_of(second_version()), header_of(second_version(), {.postprocess = false}),
        header_of(classifier_config()),
        header_of(detector_config(), {.weights = WeightType::kInt8})}) {
    const OnnxPattern pattern(header, "m.onnx");
    const onnx::ModelProto model = as_message(small_model(header).bytes);
    // The file up to the node that is changed: the first difference is there.
    onnx::ModelProto begin;
    begin.set_ir_version(model.ir_version());
    begin.set_producer_name(model.producer_name());
    begin.set_doc_string(model.doc_string());
    std::string file = begin.SerializeAsString() + wire_prefix(onnx_field::kModelGraph, 1 << 30);
    const auto with = [&](const onnx::NodeProto& node) {
      const std::string bytes = node.SerializeAsString();
      return cat(file, wire_prefix(onnx_field::kGraphNode, bytes.size()), bytes);
    };
    for (int place = 0; place < model.graph().node_size(); ++place) {
      const onnx::NodeProto& node = model.graph().node(place);
      for (const auto& [what, change] : kNodeChanges) {
        onnx::NodeProto other = node;
        if (!change(other)) continue;
        const std::string words = pattern.difference(with(other)).value_or("accepted");
        EXPECT_TRUE(words.starts_with(cat("node ", place + 1, " is ")) ||
                    words.starts_with(cat("node \"", node.name(), "\": ")))
            << what << " of " << node.name() << ": " << words;
      }
      file = with(node);
    }
    EXPECT_THAT(pattern.difference(file).value_or("accepted"), HasSubstr("has no name behind its"));
  }
}

TEST(OnnxCheck, WordsOfANodeSayWhatWasGotAndWanted) {
  const InferenceHeader header = header_of(classifier_config());
  const onnx::ModelProto model = as_message(small_model(header).bytes);
  const auto words = [&](const std::function<void(onnx::NodeProto&)>& change) {
    onnx::ModelProto other = model;
    for (onnx::NodeProto& node : *other.mutable_graph()->mutable_node()) {
      if (node.op_type() != "Conv") continue;
      change(node);
      break;
    }
    return difference(header, other);
  };
  EXPECT_THAT(words([](auto& node) { node.set_op_type("Loop"); }),
              AllOf(HasSubstr("is Loop, want Conv \"body/Conv_")));
  EXPECT_THAT(words([](auto& node) { node.set_domain("evil\n"); }),
              HasSubstr("is evil\\n.Conv, want Conv"));
  EXPECT_THAT(words([](auto& node) { node.set_input(1, std::string(1000, 'x')); }),
              AllOf(HasSubstr("inputs: got "), HasSubstr("want "), HasSubstr("body/conv1.weight")));
  EXPECT_THAT(words([](auto& node) { node.mutable_attribute(0)->set_ints(0, 5); }),
              HasSubstr("attribute kernel_shape: got [5 3], want [3 3]"));
  EXPECT_THAT(words([](auto& node) { node.mutable_attribute(0)->set_name("dilations"); }),
              HasSubstr("has the attribute \"dilations\", want kernel_shape"));
  EXPECT_THAT(words([](auto& node) { node.mutable_attribute()->RemoveLast(); }),
              HasSubstr("has no attribute pads"));
  EXPECT_THAT(words([](auto& node) { node.set_doc_string("hidden"); }),
              HasSubstr("has a field that retina-convert does not write"));
}

TEST(OnnxCheck, NodesAddedRemovedOrSwappedAreNamed) {
  const InferenceHeader header = header_of(detector_config());
  onnx::ModelProto model = as_message(small_model(header).bytes);
  model.mutable_graph()->clear_initializer();
  const OnnxPattern pattern(header, "m.onnx");
  const auto words = [&](const onnx::ModelProto& other) {
    return pattern.difference(other.SerializeAsString()).value_or("accepted");
  };
  const int count = model.graph().node_size();
  for (const int place : {0, 1, count / 2, count - 1}) {
    onnx::ModelProto other = model;
    other.mutable_graph()->mutable_node()->DeleteSubrange(place, 1);
    EXPECT_THAT(words(other), HasSubstr(cat("node ", place + 1))) << "removed";
    other = model;
    *other.mutable_graph()->add_node() = model.graph().node(place);
    EXPECT_THAT(words(other), HasSubstr(cat("no name behind its ", count, " nodes"))) << "added";
    if (place + 1 == count) continue;
    other = model;
    other.mutable_graph()->mutable_node()->SwapElements(place, place + 1);
    EXPECT_THAT(words(other), HasSubstr(cat("node ", place + 1, " is "))) << "swapped";
  }
}

// --- Tensors ------------------------------------------------------------------------------------

TEST(OnnxCheck, AChangeOfAnyTensorIsNamed) {
  const InferenceHeader header = header_of(detector_config(), {.weights = WeightType::kInt8});
  const OnnxPattern pattern(header, "m.onnx");
  onnx::ModelProto model = as_message(small_model(header).bytes);
  const std::pair<const char*, std::function<void(onnx::TensorProto&)>> changes[] = {
      {"name", [](auto& tensor) { tensor.set_name("other"); }},
      {"type", [](auto& tensor) { tensor.set_data_type(onnx::TensorProto::DOUBLE); }},
      {"shape", [](auto& tensor) { tensor.add_dims(1); }},
      {"fewer numbers", [](auto& tensor) { tensor.mutable_raw_data()->pop_back(); }},
      {"more numbers", [](auto& tensor) { tensor.mutable_raw_data()->push_back(0); }},
      {"another file",
       [](auto& tensor) {
         tensor.set_data_location(onnx::TensorProto::EXTERNAL);
         tensor.add_external_data()->set_key("location");
       }},
      {"numbers elsewhere", [](auto& tensor) { tensor.add_float_data(1); }},
      {"text", [](auto& tensor) { tensor.set_doc_string("hidden"); }},
  };
  // The largest are left out here: a model is 20 MB, of which most is theirs.
  for (int place = 0; place < model.graph().initializer_size(); ++place) {
    if (model.graph().initializer(place).raw_data().size() > 1000) {
      model.mutable_graph()->mutable_initializer(place)->mutable_raw_data()->resize(0);
      model.mutable_graph()->mutable_initializer()->DeleteSubrange(
          place, model.graph().initializer_size() - place);
    }
  }
  for (int place = 0; place < model.graph().initializer_size(); ++place) {
    for (const auto& [what, change] : changes) {
      const onnx::TensorProto before = model.graph().initializer(place);
      change(*model.mutable_graph()->mutable_initializer(place));
      const std::string words = pattern.difference(model.SerializeAsString()).value_or("accepted");
      EXPECT_TRUE(words.starts_with(cat("tensor ", place + 1, " is called \"other\"")) ||
                  words.starts_with(cat("tensor \"", before.name(), "\": ")))
          << what << " of " << before.name() << ": " << words;
      *model.mutable_graph()->mutable_initializer(place) = before;
    }
  }
}

// Of each tensor what its numbers may be: constants those that they are, weights any finite ones.
TEST(OnnxCheck, NumbersFollowTheirRule) {
  for (const WeightType weights : {WeightType::kF32, WeightType::kF16, WeightType::kInt8}) {
    const InferenceHeader header = header_of(classifier_config(), {.weights = weights});
    const OnnxPattern pattern(header, "m.onnx");
    const onnx::ModelProto model = as_message(small_model(header).bytes);
    const auto with = [&](int place, const std::function<void(std::string&)>& change) {
      onnx::ModelProto other = model;
      change(*other.mutable_graph()->mutable_initializer(place)->mutable_raw_data());
      return pattern.difference(sealed(other.SerializeAsString())).value_or("accepted");
    };
    int trained_count = 0, constant_count = 0;
    for (int place = 0; place < model.graph().initializer_size(); ++place) {
      const onnx::TensorProto& tensor = model.graph().initializer(place);
      const std::string flipped = with(place, [](std::string& bytes) {
        bytes[0] = bytes[0] == 4 ? '\5' : '\4';  // fits every type's rule
      });
      const bool is_constant = tensor.name().starts_with("integer") ||
                               tensor.name().starts_with("number") ||
                               tensor.name().starts_with("normalisation");
      if (is_constant) {
        ++constant_count;
        EXPECT_EQ(flipped,
                  cat("tensor \"", tensor.name(), "\": has other numbers than retina-convert's"));
        continue;
      }
      ++trained_count;
      EXPECT_EQ(flipped, "accepted") << tensor.name();
      const auto last = [&](const auto number) {
        return with(place, [&](std::string& bytes) {
          std::memcpy(&bytes[bytes.size() - sizeof number], &number, sizeof number);
        });
      };
      switch (tensor.data_type()) {
        case onnx::TensorProto::FLOAT:
          for (const float number :
               {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                -std::numeric_limits<float>::infinity()}) {
            EXPECT_NE(last(number), "accepted") << tensor.name();
          }
          if (tensor.name().ends_with("/scale")) {
            EXPECT_THAT(last(0.0F), HasSubstr("has a scale that is not a finite number above 0"));
            EXPECT_NE(last(-1.0F), "accepted");
          } else {
            EXPECT_EQ(last(std::numeric_limits<float>::max()), "accepted");
            EXPECT_EQ(last(-1e-40F), "accepted");
          }
          break;
        case onnx::TensorProto::FLOAT16:
          EXPECT_THAT(last(std::uint16_t{0x7C00}), HasSubstr("not finite"));
          EXPECT_THAT(last(std::uint16_t{0xFE00}), HasSubstr("not finite"));
          EXPECT_EQ(last(std::uint16_t{0x7BFF}), "accepted");
          break;
        case onnx::TensorProto::INT8:
          EXPECT_THAT(last(std::int8_t{64}), HasSubstr("has a number outside -63..63"));
          EXPECT_THAT(last(std::int8_t{-128}), HasSubstr("has a number outside -63..63"));
          EXPECT_EQ(last(std::int8_t{-63}), "accepted");
          break;
        default:
          break;
      }
    }
    EXPECT_GT(trained_count, 10);
    EXPECT_GT(constant_count, 5);
  }
}

// --- Around the graph ---------------------------------------------------------------------------

TEST(OnnxCheck, InputsOutputsAndWhatIsAroundTheGraphAreNamed) {
  const InferenceHeader header = header_of(classifier_config());
  const onnx::ModelProto model = as_message(small_model(header).bytes);
  const auto words = [&](const std::function<void(onnx::ModelProto&)>& change) {
    onnx::ModelProto other = model;
    change(other);
    return difference(header, other);
  };
  const auto input_type = [](onnx::ModelProto& other) {
    return other.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type();
  };
  EXPECT_EQ(words([](auto&) {}), "accepted");
  EXPECT_THAT(words([&](auto& other) { input_type(other)->set_elem_type(1); }),
              HasSubstr("input \"images\": has another name, type or shape"));
  EXPECT_THAT(words([&](auto& other) {
                input_type(other)->mutable_shape()->mutable_dim(1)->set_dim_value(4);
              }),
              HasSubstr("input \"images\""));
  EXPECT_THAT(words([](auto& other) { other.mutable_graph()->mutable_output(0)->set_name("x"); }),
              HasSubstr("output \"probabilities\""));
  EXPECT_THAT(words([](auto& other) { other.mutable_graph()->mutable_output()->RemoveLast(); }),
              HasSubstr("no output \"logits\""));
  EXPECT_THAT(words([](auto& other) { other.mutable_graph()->add_input()->set_name("more"); }),
              HasSubstr("no output \"probabilities\" where"));
  EXPECT_THAT(words([](auto& other) { other.mutable_graph()->add_output()->set_name("more"); }),
              HasSubstr("the graph goes on"));
  EXPECT_THAT(words([](auto& other) { other.mutable_graph()->add_value_info()->set_name("x"); }),
              HasSubstr("the graph goes on where retina-convert's ends (field 13)"));
  EXPECT_THAT(words([](auto& other) { other.mutable_graph()->add_sparse_initializer(); }),
              HasSubstr("the graph goes on"));
  EXPECT_THAT(words([](auto& other) { other.mutable_graph()->set_name("other"); }),
              HasSubstr("the graph is called \"other\", want Classifier"));
  EXPECT_THAT(words([](auto& other) { other.mutable_graph()->set_doc_string("other"); }),
              HasSubstr("no input \"images\" where"));
  EXPECT_THAT(words([](auto& other) { other.set_ir_version(9); }), HasSubstr("ir_version is not"));
  EXPECT_THAT(words([](auto& other) { other.set_producer_name("pytorch"); }),
              HasSubstr("producer_name is not retina-convert's"));
  EXPECT_THAT(words([](auto& other) { other.set_domain("x"); }),
              HasSubstr("has field 4, want doc_string"));
  EXPECT_THAT(
      words([](auto& other) { other.mutable_opset_import(0)->set_version(std::int64_t{1} << 40); }),
      HasSubstr("opset_import is not retina-convert's"));
  EXPECT_THAT(words([](auto& other) { other.add_opset_import()->set_version(1); }),
              HasSubstr("has opset_import, want metadata_props"));
  EXPECT_THAT(words([](auto& other) { other.mutable_metadata_props(1)->set_value("other"); }),
              HasSubstr("its metadata names are not what retina-convert writes"));
  EXPECT_THAT(words([](auto& other) { other.mutable_metadata_props(1)->set_key("other"); }),
              HasSubstr("has the metadata \"other\", want names"));
  EXPECT_THAT(words([](auto& other) { other.add_metadata_props()->set_key("more"); }),
              HasSubstr("has more behind its metadata than a seal"));
  EXPECT_THAT(words([](auto& other) { other.add_functions()->set_name("f"); }),
              HasSubstr("has more behind its metadata than a seal"));
  EXPECT_THAT(words([](auto& other) { other.clear_graph(); }), HasSubstr("has no graph"));
}

// The same message in other bytes: parsers read it alike, and it is not what the writer writes.
TEST(OnnxCheck, TheSameFieldsEncodedOtherwiseAreRefused) {
  const InferenceHeader header = header_of(classifier_config());
  const std::string model = small_model(header).bytes;
  const OnnxPattern pattern(header, "m.onnx");
  const auto words = [&](const std::string& bytes) {
    return pattern.difference(sealed(bytes)).value_or("accepted");
  };
  std::string longer = model;
  longer.replace(1, 1, std::string("\x88\x00", 2));  // ir_version 8 in two bytes
  EXPECT_THAT(words(longer), HasSubstr("ir_version is not"));
  EXPECT_THAT(words(model + std::string("\x08\x08", 2)), HasSubstr("more behind its metadata"));
  EXPECT_THAT(words(model + std::string("\x3a\x00", 2)), HasSubstr("more behind its metadata"));
  EXPECT_THAT(words(model.substr(0, model.size() - 1)), testing::Not("accepted"));
}

TEST(OnnxCheck, AHeaderThatNoModelHasIsRefused) {
  const auto words = [](const std::function<void(InferenceHeader&)>& change) {
    InferenceHeader header = header_of(detector_config());
    change(header);
    return refusal_of(ErrorKind::kData, [&] { const OnnxPattern pattern(header, "m.onnx"); });
  };
  EXPECT_EQ(words([](auto&) {}), "accepted");
  EXPECT_THAT(words([](auto& header) { header.config_json = "{}"; }), StartsWith("m.onnx: config"));
  EXPECT_THAT(words([](auto& header) { header.task = Task::kClassification; }),
              HasSubstr("by its header and for detection by its config"));
  EXPECT_THAT(words([](auto& header) { header.categories.pop_back(); }),
              HasSubstr("names 2 classes (want 3)"));
  EXPECT_THAT(words([](auto& header) { header.score_threshold = 1.5; }),
              HasSubstr("score threshold: out of range"));
  EXPECT_THAT(words([](auto& header) { header.max_detections = 2'000'000'000; }),
              HasSubstr("max detections: out of range"));
  InferenceHeader header = header_of(classifier_config());
  header.form.postprocess = false;
  EXPECT_THAT(refusal_of(ErrorKind::kData, [&] { const OnnxPattern pattern(header, "m.onnx"); }),
              HasSubstr("m.onnx: is a classifier without postprocess"));
}

// --- Files --------------------------------------------------------------------------------------

TEST(OnnxCheck, AFileIsReadNoFurtherThanItsModelGoes) {
  const TestFolder folder;
  const InferenceHeader header = header_of(classifier_config());
  const std::string file = sealed(small_model(header).bytes);
  write_file_atomically(folder / "m.onnx", file);
  CheckedModel checked = read_onnx_model(folder / "m.onnx");
  EXPECT_EQ(checked.problem, "");
  EXPECT_EQ(checked.bytes, file);
  // A sealed one that goes on.
  const std::string longer = sealed(small_model(header).bytes + std::string("\x72\x80\x80\x40", 4) +
                                    std::string(1 << 20, '\0'));
  write_file_atomically(folder / "m.onnx", longer);
  checked = read_onnx_model(folder / "m.onnx");
  EXPECT_THAT(checked.problem, HasSubstr("more behind its metadata"));
  EXPECT_EQ(checked.bytes.size(), file.size() + 1);
}

TEST(OnnxCheck, ADamagedFileIsDamagedNotForeign) {
  const TestFolder folder;
  const std::string file = sealed(small_model(header_of(classifier_config())).bytes);
  const std::size_t header_place = file.find("\"format_version\"");
  ASSERT_NE(header_place, std::string::npos);
  const auto refusal = [&] {
    return refusal_of(ErrorKind::kData, [&] {
      read_onnx_model(folder / "m.onnx").throw_if_foreign(folder / "m.onnx");
    });
  };
  for (const std::size_t place : {std::size_t{1}, std::size_t{100}, file.size() / 2, header_place,
                                  file.find("class 1"), file.find("cifar-cnn"), file.size() - 60}) {
    std::string bytes = file;
    bytes[place] = static_cast<char>(bytes[place] ^ 2);
    write_file_atomically(folder / "m.onnx", bytes);
    EXPECT_THAT(refusal(), HasSubstr("damaged or changed (hash")) << "flipped at " << place;
  }
  for (const std::size_t size : {file.size() - 1, file.size() - 40, file.size() / 2}) {
    write_file_atomically(folder / "m.onnx", file.substr(0, size));
    EXPECT_THAT(refusal(), HasSubstr("cut short")) << "cut to " << size;
  }
}

TEST(OnnxCheck, NamesHaveALineEach) {
  InferenceHeader header = header_of(classifier_config());
  header.categories.front().name = "two\nlines";
  const onnx::ModelProto model = as_message(small_model(header).bytes);
  for (const auto& entry : model.metadata_props()) {
    if (entry.key() == "names") {
      EXPECT_THAT(entry.value(), testing::StartsWith("two\\nlines\n"));
    }
  }
}

// As other tools save a model: the seal is there, and no longer that of the content.
TEST(OnnxCheck, OneThatAnotherToolSavedIsLeftToTheCaller) {
  const TestFolder folder;
  const InferenceHeader header = header_of(classifier_config());
  onnx::ModelProto model = as_message(sealed(small_model(header).bytes));
  model.set_producer_name("another tool");
  write_file_atomically(folder / "m.onnx", model.SerializeAsString());
  const CheckedModel checked = read_onnx_model(folder / "m.onnx");
  EXPECT_TRUE(checked.is_broken);
  EXPECT_EQ(checked.header.config_json, header.config_json);
  EXPECT_THAT(checked.problem, HasSubstr("damaged or changed"));
}

TEST(OnnxCheck, RefusesBytesInOneLineWithTheFirstDifference) {
  const InferenceHeader header = header_of(classifier_config());
  onnx::ModelProto model = as_message(small_model(header).bytes);
  model.mutable_graph()->mutable_node(3)->set_op_type("Loop");
  EXPECT_THAT(refusal_of(ErrorKind::kData,
                         [&] { check_onnx_model(sealed(model.SerializeAsString()), "m.onnx"); }),
              StartsWith("m.onnx: node 4 is Loop, want "));
  EXPECT_THAT(
      refusal_of(ErrorKind::kData, [&] { check_onnx_model(model.SerializeAsString(), "m.onnx"); }),
      HasSubstr("its closing seal is missing"));
  EXPECT_NE(refusal_of(ErrorKind::kData, [&] { check_onnx_model("", "m.onnx"); }), "accepted");
}

}  // namespace
}  // namespace retina
