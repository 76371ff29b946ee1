// retina-convert as a user meets it: exit code, one line on stderr, results on stdout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "shared/onnx/onnx_session.h"
#include "tests/convert/make_checkpoint.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;

ProcessResult run(std::vector<std::string> arguments) {
  // Tests run side by side; more threads than cores spin on each other.
  ::setenv("OMP_NUM_THREADS", "1", 1);
  arguments.insert(arguments.begin(), "retina-convert");
  return run_process(arguments);
}

void expect_one_line(const ProcessResult& result, int exit_code, const std::string& text) {
  EXPECT_EQ(result.exit_code, exit_code) << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr(text));
  EXPECT_EQ(result.out, "");
}

class ConvertCli : public testing::Test {
 protected:
  const TestFolder folder_;
  const std::string checkpoint_ = folder_ / "c.pt", output_ = folder_ / "m.onnx";
};

TEST_F(ConvertCli, WithoutArgumentsIsUsage) {
  expect_one_line(run({}), 64, "no options given");
  expect_one_line(run({"--output", output_}), 64, "--checkpoint: is required (or --import)");
}

TEST_F(ConvertCli, AnUnknownOptionNamesTheNearest) {
  expect_one_line(run({"--chekpoint", "c.pt"}), 64, "--checkpoint");
}

TEST_F(ConvertCli, AThresholdOutOfRangeIsUsage) {
  expect_one_line(run({"--checkpoint", checkpoint_, "--output", output_, "--nms-threshold", "2"}),
                  64, "bad value (got \"2\"");
}

TEST_F(ConvertCli, AnImageSizeIsHeightTimesWidth) {
  for (const char* size : {"480", "480x", "0x640", "480x640x3", "x"}) {
    expect_one_line(run({"--checkpoint", checkpoint_, "--output", output_, "--onnx-static", size}),
                    64, cat("--onnx-static: got \"", size, "\", want HEIGHTxWIDTH"));
  }
}

TEST_F(ConvertCli, AnInferenceModelIsAnOnnxFile) {
  const auto to = [&](const std::string& name) {
    return run({"--checkpoint", checkpoint_, "--check-args", "--output", name});
  };
  for (const char* name : {"m.pt", "m.engine", "m.xml", "m.tflite", "m.torchscript", "m.ONNX"}) {
    const std::string ending = std::filesystem::path(name).extension();
    expect_one_line(to(name), 64,
                    cat("--output ", name, ": an inference model is an ONNX file (got the ending ",
                        ending, ", want .onnx)"));
  }
  for (const char* name : {"m.onnx", "m"}) EXPECT_EQ(to(name).exit_code, 0) << name;
  expect_one_line(run({"--import", "w.pth", "--output", "m.onnx"}), 64,
                  "--import writes a checkpoint");
}

TEST_F(ConvertCli, ThereIsNoFormatToChoose) {
  expect_one_line(
      run({"--checkpoint", checkpoint_, "--output", output_, "--format", "torchscript"}), 64,
      "unknown option --format: an inference model is an ONNX file, which --output names: "
      "NAME.onnx");
}

TEST_F(ConvertCli, HelpNamesEveryOption) {
  const auto result = run({"--help"});
  EXPECT_EQ(result.exit_code, 0);
  for (const char* option : {"--checkpoint", "--output", "--score-threshold", "--nms-threshold",
                             "--max-detections", "--verification-images", "--data", "--device",
                             "--weights", "--onnx-static", "--no-postprocess"}) {
    EXPECT_THAT(result.out, HasSubstr(option));
  }
}

TEST_F(ConvertCli, AMissingCheckpointIsNoInput) {
  expect_one_line(run({"--checkpoint", checkpoint_, "--output", output_}), 66, "c.pt");
}

TEST_F(ConvertCli, ACutOrForeignCheckpointIsBadData) {
  make_checkpoint(checkpoint_);
  const std::string bytes = read_file(checkpoint_);
  write_file_atomically(checkpoint_, bytes.substr(0, bytes.size() / 2));
  expect_one_line(run({"--checkpoint", checkpoint_, "--output", output_}), 65, "cut short");
  write_file_atomically(checkpoint_, "hello");
  expect_one_line(run({"--checkpoint", checkpoint_, "--output", output_}), 65, "not a checkpoint");
  EXPECT_FALSE(path_exists(output_));
}

TEST_F(ConvertCli, AnOutputThatCannotBeCreatedIs73) {
  make_checkpoint(checkpoint_);
  const auto below_a_file = run(
      {"--checkpoint", checkpoint_, "--output", checkpoint_ + "/m.onnx", "--log-level", "error"});
  expect_one_line(below_a_file, 73, "cannot create the folder");
  expect_one_line(
      run({"--checkpoint", checkpoint_, "--output", folder_.path(), "--log-level", "error"}), 73,
      "is a folder");
}

TEST_F(ConvertCli, CudaWithoutAGpuIsUnavailable) {
  if (::access("/dev/nvidiactl", F_OK) == 0) GTEST_SKIP() << "this machine has a GPU";
  make_checkpoint(checkpoint_);
  expect_one_line(run({"--checkpoint", checkpoint_, "--output", output_, "--device", "cuda"}), 69,
                  "cuda");
}

TEST_F(ConvertCli, ConvertsAndSaysSoAndDoesNothingTheSecondTime) {
  make_checkpoint(checkpoint_);
  const std::vector<std::string> command = {
      "--checkpoint",          checkpoint_, "--output",         output_,
      "--verification-images", "2",         "--max-detections", "50"};
  const auto first = run(command);
  EXPECT_EQ(first.exit_code, 0) << first.err;
  if (has_onnx_runtime()) {
    EXPECT_THAT(first.out, HasSubstr("verification: 2 images"));
    EXPECT_THAT(first.out, HasSubstr("largest difference: box"));
  }
  EXPECT_FALSE(path_exists(output_ + ".tmp"));

  const auto second = run(command);
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(std::count(second.out.begin(), second.out.end(), '\n'), 1);
  EXPECT_THAT(second.out, HasSubstr("already exists"));

  auto other = command;
  other.insert(other.end(), {"--score-threshold", "0.3"});
  expect_one_line(run(other), 78, "score-threshold");
}

TEST_F(ConvertCli, AClassifierTakesNoOptionsOfDetectors) {
  make_checkpoint(checkpoint_, {"--task", "classify"});
  const std::vector<std::string> command = {"--checkpoint", checkpoint_, "--output", output_};
  for (const auto& [option, value] : {std::pair{"--score-threshold", "0.05"},
                                      {"--nms-threshold", "0.5"},
                                      {"--max-detections", "300"}}) {
    auto refused = command;
    refused.insert(refused.end(), {option, value});
    expect_one_line(run(refused), 78, cat(option, ": has no effect on a classifier"));
  }
  EXPECT_FALSE(path_exists(output_));
  const auto done = run(command);
  EXPECT_EQ(done.exit_code, 0) << done.err;
  if (has_onnx_runtime()) {
    EXPECT_THAT(done.out, HasSubstr("verification: 4 images, the same best class on 4"));
  }
}

TEST_F(ConvertCli, TheOutputsFolderIsMade) {
  make_checkpoint(checkpoint_);
  const auto result = run({"--checkpoint", checkpoint_, "--output", folder_ / "new/deep/m.onnx",
                           "--verification-images", "1"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(path_exists(folder_ / "new/deep/m.onnx"));
}

TEST_F(ConvertCli, ARunsFolderMeansItsBestCheckpoint) {
  make_checkpoint(checkpoint_);
  const std::string run_folder = folder_ / "run";
  make_folder(run_folder);
  std::filesystem::rename(checkpoint_, run_folder + "/checkpoint-07.pt");
  const std::vector<std::string> command = {
      "--checkpoint", run_folder, "--output", output_, "--verification-images", "1"};
  const auto first = run(command);
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.err, HasSubstr("run: taking checkpoint-07.pt, the last"));
  const auto again = run({"--checkpoint", run_folder + "/checkpoint-07.pt", "--output", output_});
  EXPECT_THAT(again.out, HasSubstr("already exists"));

  // A run that went on is another input.
  make_checkpoint(run_folder + "/checkpoint-08.pt", {"--seed", "9"});
  const auto moved = run(command);
  EXPECT_EQ(moved.exit_code, 78);
  EXPECT_THAT(moved.err, HasSubstr("was made with other inputs: checkpoint (was "));
}

}  // namespace
}  // namespace retina
