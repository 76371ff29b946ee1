// Models that crash, hang or fill the memory, in a process of their own. This program is that
// process, too.
#include "shared/onnx/isolated_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <cstring>

#include "shared/base/error.h"
#include "tests/support/refusal.h"

namespace retina {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

// images u8 [N, 3, H, W] -> boxes, of one node that `change` completes.
std::string model_of(const std::function<void(onnx::GraphProto&)>& change, std::int64_t opset = 17,
                     int output_type = onnx::TensorProto::UINT8) {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(opset);
  onnx::GraphProto& graph = *model.mutable_graph();
  graph.set_name("g");
  const auto typed = [](onnx::ValueInfoProto& value, const char* name, int type) {
    value.set_name(name);
    auto& tensor = *value.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(type);
    for (const char* side : {"N", "C", "H", "W"}) {
      tensor.mutable_shape()->add_dim()->set_dim_param(side);
    }
  };
  typed(*graph.add_input(), "images", onnx::TensorProto::UINT8);
  typed(*graph.add_output(), "boxes", output_type);
  change(graph);
  return model.SerializeAsString();
}

onnx::NodeProto& add_node(onnx::GraphProto& graph, const char* op,
                          const std::vector<std::string>& inputs, const std::string& output) {
  onnx::NodeProto& node = *graph.add_node();
  node.set_op_type(op);
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(output);
  return node;
}

void add_integers(onnx::GraphProto& graph, const char* name, std::vector<std::int64_t> shape,
                  const std::vector<std::int64_t>& numbers) {
  onnx::TensorProto& tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(onnx::TensorProto::INT64);
  for (const std::int64_t side : shape) tensor.add_dims(side);
  tensor.set_raw_data(numbers.data(), numbers.size() * sizeof(std::int64_t));
}

std::vector<OnnxOutput> run(OnnxSession& session) {
  static const std::vector<std::uint8_t> pixels(2 * 3 * 4 * 5, 9);
  return session.run({.pixels = pixels.data(), .count = 2, .height = 4, .width = 5});
}

std::string words_of(const std::string& model, const IsolationLimits& limits = {}) {
  return refusal_of(ErrorKind::kData,
                    [&] { run(*open_isolated_session(model, "m.onnx", 1, limits)); });
}

class IsolatedSession : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_onnx_runtime()) GTEST_SKIP() << "built without OpenVINO";
  }
};

TEST_F(IsolatedSession, GivesWhatASessionGives) {
  const std::string model = model_of(
      [](onnx::GraphProto& graph) {
        onnx::AttributeProto& to = *add_node(graph, "Cast", {"images"}, "boxes").add_attribute();
        to.set_name("to");
        to.set_type(onnx::AttributeProto::INT);
        to.set_i(onnx::TensorProto::FLOAT);
      },
      17, onnx::TensorProto::FLOAT);
  const auto near = open_onnx_session(model, "m.onnx", 1);
  const auto far = open_isolated_session(model, "m.onnx", 1);
  for (int time = 0; time < 3; ++time) {
    const std::vector<OnnxOutput> want = run(*near), got = run(*far);
    ASSERT_EQ(got.size(), 1U);
    EXPECT_EQ(got[0].names, want[0].names);
    EXPECT_EQ(got[0].shape, (std::vector<std::int64_t>{2, 3, 4, 5}));
    ASSERT_TRUE(got[0].is_float);
    EXPECT_EQ(std::memcmp(got[0].data, want[0].data, 120 * sizeof(float)), 0);
  }
}

TEST_F(IsolatedSession, ACrashIsAMessage) {
  const std::string model = model_of([](onnx::GraphProto& graph) {
    add_integers(graph, "place", {1, 4}, {std::int64_t{1} << 40, 0, 0, 0});
    add_node(graph, "GatherND", {"images", "place"}, "boxes");
  });
  EXPECT_THAT(words_of(model),
              AllOf(HasSubstr("m.onnx: "), HasSubstr("ended its process (signal")));
}

TEST_F(IsolatedSession, TooMuchMemoryIsAMessage) {
  const std::string model = model_of([](onnx::GraphProto& graph) {
    add_integers(graph, "shape", {5}, {std::int64_t{1} << 33, 1, 1, 1, 1});
    add_node(graph, "Expand", {"images", "shape"}, "boxes");
  });
  // The runtime may see that memory ends, or crash.
  EXPECT_THAT(words_of(model, {.memory_bytes = 1 << 30}),
              AnyOf(HasSubstr("takes more than 1.0 GiB of memory (the limit)"),
                    HasSubstr("ended its process (signal")));
}

TEST_F(IsolatedSession, AHangIsAMessage) {
  const std::string model =
      model_of([](onnx::GraphProto& graph) { add_node(graph, "Identity", {"images"}, "boxes"); },
               std::int64_t{1} << 40);
  EXPECT_THAT(words_of(model, {.deadline = std::chrono::seconds(2)}),
              HasSubstr("loading it took more than 2 s (the limit)"));
}

TEST_F(IsolatedSession, TheRuntimesReasonIsKept) {
  EXPECT_THAT(words_of("\x08\x08 not a model"), HasSubstr("m.onnx: OpenVINO cannot load it ("));
  const std::string bytes =
      model_of([](onnx::GraphProto& graph) { add_node(graph, "Identity", {"images"}, "boxes"); });
  EXPECT_THAT(words_of(bytes), HasSubstr("has the type u8 (want f32 or i64)"));
}

}  // namespace
}  // namespace retina

int main(int argc, char** argv) {
  if (retina::is_isolated_call(argc, argv)) return retina::isolated_main(argc, argv);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
