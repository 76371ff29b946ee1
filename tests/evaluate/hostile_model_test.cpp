// retina-eval --model with inference models that retina-convert did not write: refused by name
// before a runtime sees them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "shared/base/file.h"
#include "shared/image/jpeg.h"
#include "shared/onnx/onnx_session.h"
#include "tests/onnx/small_model.h"
#include "tests/support/child_process.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class HostileModel : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TestFolder;
    make_folder(*folder_ / "images", "--images");
    write_file_atomically(*folder_ / "images/a.jpg", encode_jpeg(Image(70, 50), 90));
    model_ = small_model(header_of(detector_config(), {.weights = WeightType::kInt8})).bytes;
  }
  static void TearDownTestSuite() { delete folder_; }

  static ProcessResult evaluate(const std::string& file,
                                const std::vector<std::string>& more = {}) {
    write_file_atomically(*folder_ / "m.onnx", file);
    std::vector<std::string> command{"retina-eval",
                                     "--model",
                                     *folder_ / "m.onnx",
                                     "--images",
                                     *folder_ / "images",
                                     "--output",
                                     *folder_ / "found",
                                     "--device",
                                     "cpu",
                                     "--compute-threads",
                                     "1"};
    command.insert(command.end(), more.begin(), more.end());
    return run_process(command);
  }
  static void expect_refused(const std::string& file, const std::string& reason) {
    const ProcessResult result = evaluate(file);
    EXPECT_EQ(result.exit_code, 65) << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr("m.onnx: "), HasSubstr(reason)));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_FALSE(path_exists(*folder_ / "found"));
  }
  // A foreign graph under our header: a constant that points outside of the image.
  static std::string crashing() {
    onnx::ModelProto model = as_message(model_);
    onnx::GraphProto& graph = *model.mutable_graph();
    graph.clear_node();
    graph.clear_initializer();
    graph.mutable_output()->DeleteSubrange(1, graph.output_size() - 1);
    onnx::TensorProto& place = *graph.add_initializer();
    place.set_name("place");
    place.set_data_type(onnx::TensorProto::INT64);
    place.add_dims(1);
    place.add_dims(4);
    const std::int64_t numbers[] = {std::int64_t{1} << 40, 0, 0, 0};
    place.set_raw_data(numbers, sizeof numbers);
    onnx::NodeProto& node = *graph.add_node();
    node.set_op_type("GatherND");
    node.add_input("images");
    node.add_input("place");
    node.add_output("boxes");
    return sealed(model.SerializeAsString());
  }

  static TestFolder* folder_;
  static std::string model_;
};
TestFolder* HostileModel::folder_ = nullptr;
std::string HostileModel::model_;

TEST_F(HostileModel, AForeignGraphIsRefused) {
  expect_refused(crashing(), "its node ");
}

TEST_F(HostileModel, AChangedConstantIsRefused) {
  onnx::ModelProto model = as_message(model_);
  for (onnx::TensorProto& tensor : *model.mutable_graph()->mutable_initializer()) {
    if (tensor.data_type() != onnx::TensorProto::INT64) continue;
    const std::int64_t number = std::int64_t{1} << 40;
    tensor.mutable_raw_data()->replace(0, sizeof number, reinterpret_cast<const char*>(&number),
                                       sizeof number);
    break;
  }
  expect_refused(sealed(model.SerializeAsString()), "its tensor ");
}

TEST_F(HostileModel, AnotherIrVersionIsRefused) {
  onnx::ModelProto model = as_message(model_);
  model.set_ir_version(10);
  expect_refused(sealed(model.SerializeAsString()),
                 "its field 1 is not as retina-convert writes it");
}

// As tools that know nothing of seals save it: the old one is among the metadata, or none.
TEST_F(HostileModel, AFileThatAnotherToolSavedIsRefused) {
  onnx::ModelProto resaved = as_message(sealed(model_));
  resaved.set_producer_name("another tool");
  expect_refused(resaved.SerializeAsString(), "damaged or changed");
  resaved.mutable_metadata_props()->RemoveLast();
  expect_refused(resaved.SerializeAsString(), "did not write");
}

}  // namespace
}  // namespace retina
