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
  // Another operator under our header.
  static std::string foreign() {
    onnx::ModelProto model = as_message(model_);
    model.mutable_graph()->mutable_node(0)->set_op_type("GatherND");
    return sealed(model.SerializeAsString());
  }

  static TestFolder* folder_;
  static std::string model_;
};
TestFolder* HostileModel::folder_ = nullptr;
std::string HostileModel::model_;

TEST_F(HostileModel, AForeignGraphIsRefused) {
  expect_refused(foreign(), "its node ");
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
