#include "shared/onnx/onnx_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include "shared/base/error.h"
#include "tests/support/refusal.h"

namespace retina {
namespace {

using testing::HasSubstr;

// y = relu(x), and a threshold that nothing uses.
onnx::ModelProto small_model() {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  onnx::NodeProto& node = *model.mutable_graph()->add_node();
  node.set_op_type("Relu");
  node.add_input("x");
  node.add_output("y");
  onnx::TensorProto& threshold = *model.mutable_graph()->add_initializer();
  threshold.set_name(kOnnxScoreThreshold);
  threshold.set_data_type(onnx::TensorProto::FLOAT);
  threshold.add_dims(1);
  const float number = 0.05F;
  threshold.set_raw_data(&number, sizeof number);
  onnx::StringStringEntryProto& entry = *model.add_metadata_props();
  entry.set_key("names");
  entry.set_value("cell\nplatelet\n");
  return model;
}

std::string refusal(const onnx::ModelProto& model) {
  return refusal_of(ErrorKind::kData,
                    [&] { check_onnx_model(model.SerializeAsString(), "m.onnx"); });
}

TEST(OnnxFile, TellsItsMetadata) {
  const std::string bytes = small_model().SerializeAsString();
  EXPECT_EQ(onnx_metadata(bytes, "names", "m.onnx"), "cell\nplatelet\n");
  try {
    onnx_metadata(bytes, "retina.json", "m.onnx");
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_THAT(error.what(), HasSubstr("m.onnx: not a model of retina-convert"));
  }
}

TEST(OnnxFile, WhatIsNoProtobufIsBadData) {
  for (const std::string& bytes : {std::string("\x08\x08 no more"), std::string(100, '\xff')}) {
    EXPECT_THROW(onnx_metadata(bytes, "names", "m.onnx"), Error);
    EXPECT_THROW(check_onnx_model(bytes, "m.onnx"), Error);
  }
}

TEST(OnnxFile, ANumberIsReplaced) {
  std::string bytes = small_model().SerializeAsString();
  EXPECT_TRUE(set_onnx_number(bytes, kOnnxScoreThreshold, 0.25F, "m.onnx"));
  EXPECT_FALSE(set_onnx_number(bytes, kOnnxNmsThreshold, 0.25F, "m.onnx"));
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(bytes));
  float number = 0;
  ASSERT_EQ(model.graph().initializer(0).raw_data().size(), sizeof number);
  std::memcpy(&number, model.graph().initializer(0).raw_data().data(), sizeof number);
  EXPECT_EQ(number, 0.25F);
}

TEST(OnnxFile, WhatNoConverterWritesIsRefused) {
  EXPECT_EQ(refusal(small_model()), "accepted");

  onnx::ModelProto other = small_model();
  other.mutable_graph()->mutable_node(0)->set_op_type("Loop");
  EXPECT_THAT(refusal(other),
              HasSubstr("m.onnx: uses Loop, which no model of retina-convert does"));

  other = small_model();
  other.mutable_graph()->mutable_node(0)->set_domain("com.example");
  EXPECT_THAT(refusal(other), HasSubstr("uses com.example.Relu"));

  other = small_model();
  other.add_functions()->set_name("f");
  EXPECT_THAT(refusal(other), HasSubstr("defines functions"));

  other = small_model();
  onnx::TensorProto& tensor = *other.mutable_graph()->mutable_initializer(0);
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  onnx::StringStringEntryProto& place = *tensor.add_external_data();
  place.set_key("location");
  place.set_value("/etc/passwd");
  EXPECT_THAT(refusal(other), HasSubstr("keeps score_threshold in another file"));

  other = small_model();
  onnx::AttributeProto& inner = *other.mutable_graph()->mutable_node(0)->add_attribute();
  inner.set_name("body");
  inner.mutable_g()->set_name("hidden");
  EXPECT_THAT(refusal(other), HasSubstr("hides a graph in a node"));
}

TEST(OnnxFile, OperatorsAreSorted) {
  EXPECT_TRUE(std::is_sorted(onnx_operators().begin(), onnx_operators().end()));
}

}  // namespace
}  // namespace retina
