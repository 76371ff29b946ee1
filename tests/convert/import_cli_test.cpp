// retina-convert --import as a user meets it: exit code and one line on stderr.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "tests/convert/make_checkpoint.h"
#include "tests/convert/pth_writer.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;

std::string fixture(const std::string& name) {
  return cat(RETINA_SOURCE_DIR, "/tests/convert/fixtures/", name, ".pth");
}

class ImportCli : public testing::Test {
 protected:
  void expect_refusal(const std::vector<std::string>& options, int exit_code,
                      const std::string& text) {
    std::vector<std::string> command = {"retina-convert", "--output", output_};
    command.insert(command.end(), options.begin(), options.end());
    const ProcessResult result = run_process(command);
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_THAT(result.err, HasSubstr(text));
    EXPECT_FALSE(path_exists(output_));
  }
  const TestFolder folder_;
  const std::string output_ = folder_ / "c.pt";
};

TEST_F(ImportCli, FilesThatAreNoWeightsAreBadData) {
  expect_refusal({"--import", fixture("attack_zip")}, 65, "posix.system");
  expect_refusal({"--import", fixture("attack_legacy")}, 65, "posix.system");
  expect_refusal({"--import", fixture("whole_module")}, 65, "Linear");
  expect_refusal({"--import", fixture("no_tensors")}, 65, "its keys: epoch, note");
  expect_refusal({"--import", fixture("zip")}, 65, "holds no ResNet, RegNet or MobileNetV3");
  const std::string cut = folder_ / "cut.pth";
  for (const char* whole : {"zip", "legacy"}) {
    const std::string bytes = read_file(fixture(whole));
    write_file_atomically(cut, bytes.substr(0, bytes.size() - 7));
    expect_refusal({"--import", cut}, 65, "cut short");
  }
  write_file_atomically(cut, "<html>404</html>");
  expect_refusal({"--import", cut}, 65, "is a web page");
}

TEST_F(ImportCli, AMissingFileIsNoInput) {
  expect_refusal({"--import", folder_ / "none.pth"}, 66, "none.pth");
  expect_refusal({"--import", fixture("zip"), "--categories", folder_ / "none.json"}, 66,
                 "none.json");
}

TEST_F(ImportCli, OptionsThatContradictAreUsage) {
  expect_refusal({"--import", "w.pth", "--checkpoint", "c.pt"}, 64, "both given");
  expect_refusal({"--checkpoint", "c.pt", "--categories", "coco"}, 64,
                 "has no effect with --checkpoint");
  expect_refusal({"--checkpoint", "c.pt", "--norm-eps", "0"}, 64,
                 "has no effect with --checkpoint");
  expect_refusal({"--import", "w.pth", "--norm-eps", "-1"}, 64,
                 "--norm-eps: bad value (got \"-1\", want 0 to below 1)");
  expect_refusal({"--checkpoint", "c.pt", "--task", "classify"}, 64,
                 "has no effect with --checkpoint");
  expect_refusal({"--import", "w.pth", "--task", "classify", "--anchor-sizes", "1,2,3,4,5"}, 64,
                 "--anchor-sizes: not with --task classify");
}

TEST_F(ImportCli, CheckArgsTouchesNoFile) {
  const ProcessResult result =
      run_process({"retina-convert", "--import", "/none/w.pth", "--output", "/none/c.pt",
                   "--categories", "/none/a.json", "--norm-eps", "0", "--check-args"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
}

TEST_F(ImportCli, OnesOwnCheckpointNeedsNoImport) {
  const std::string own = folder_ / "own.pt";
  make_checkpoint(own);
  expect_refusal({"--import", own}, 65, "already a checkpoint of retina-batch");
}

TEST_F(ImportCli, OnesOwnInferenceModelIsSaidToBeOne) {
  const std::string own = folder_ / "own.pt", model = folder_ / "model.onnx";
  make_checkpoint(own);
  const auto converted = run_process(
      {"retina-convert", "--checkpoint", own, "--output", model, "--verification-images", "1"});
  ASSERT_EQ(converted.exit_code, 0) << converted.err;
  expect_refusal({"--import", model}, 65, "is an inference model that retina-convert wrote");
}

}  // namespace
}  // namespace retina
