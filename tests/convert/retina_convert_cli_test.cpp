// retina-convert as a user meets it: exit code, one line on stderr, results on stdout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
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
using Words = std::vector<std::string>;

std::string fixture(const std::string& name) {
  return cat(RETINA_SOURCE_DIR, "/tests/convert/fixtures/", name, ".pth");
}

std::ptrdiff_t lines_of(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

class ConvertCli : public testing::Test {
 protected:
  static ProcessResult run(Words words) {
    // Tests run side by side; more threads than cores spin on each other.
    ::setenv("OMP_NUM_THREADS", "1", 1);
    words.insert(words.begin(), "retina-convert");
    return run_process(words);
  }
  // Converts checkpoint_ to output_, unless `words` say otherwise.
  ProcessResult convert(Words words = {}) const {
    for (const auto& [name, value] : {std::pair<std::string, std::string>{"--output", output_},
                                      {"--checkpoint", checkpoint_},
                                      {"--verification-images", "1"},
                                      {"--log-level", "error"}}) {
      if (std::find(words.begin(), words.end(), name) != words.end()) continue;
      words.insert(words.end(), {name, value});
    }
    return run(words);
  }
  static void expect_one_line(const ProcessResult& result, int exit_code, const std::string& text) {
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_EQ(lines_of(result.err), 1) << result.err;
    EXPECT_THAT(result.err, HasSubstr(text));
    EXPECT_EQ(result.out, "");
  }
  static void expect_done(const ProcessResult& result, const std::string& text) {
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr(text));
  }
  void expect_no_import(const std::string& file, int exit_code, const std::string& text) const {
    const std::string output = folder_ / "i.pt";
    expect_one_line(run({"--import", file, "--output", output}), exit_code, text);
    EXPECT_FALSE(path_exists(output));
  }

  const TestFolder folder_;
  const std::string checkpoint_ = folder_ / "c.pt", output_ = folder_ / "m.onnx",
                    root_ = folder_ / "served", model_ = root_ + "/coco_retinanet/1/model.onnx",
                    config_ = root_ + "/coco_retinanet/config.pbtxt";
  const Words repository_ = {"--repository", root_};
};

TEST_F(ConvertCli, WrongOptionsAreUsage) {
  const Words c = {"--checkpoint", "c.pt", "--output", "m.onnx"},
              i = {"--import", "w.pth", "--output", "c.pt"};
  const std::string no_checkpoint = "has no effect with --checkpoint";
  const std::tuple<Words, Words, std::string> cases[] = {
      {{}, {}, "no options given"},
      {{}, {"--output", "m.onnx"}, "--checkpoint: is required (or --import)"},
      {{}, {"--chekpoint", "c.pt"}, "--checkpoint"},
      {c, {"--nms-threshold", "2"}, "bad value (got \"2\""},
      {c, {"--format", "torchscript"}, "unknown option --format"},
      {c, {"--onnx-static", "480"}, "--onnx-static: got \"480\", want HEIGHTxWIDTH"},
      {c, {"--onnx-static", "0x640"}, "want HEIGHTxWIDTH"},
      {c, {"--onnx-static", "480x640x3"}, "want HEIGHTxWIDTH"},
      {c, {"--service-name", "pets"}, "--service-name: has no effect without --repository"},
      {c, {"--repository", "r", "--service-name", "../pets"}, "not a name"},
      {c, {"--repository", "r", "--no-postprocess"}, "--repository: the service gives"},
      {c, {"--import", "w.pth"}, "both given"},
      {c, {"--categories", "coco"}, no_checkpoint},
      {c, {"--norm-eps", "0"}, no_checkpoint},
      {c, {"--task", "classify"}, no_checkpoint},
      {i, {"--repository", "r"}, "--repository: has no effect with --import"},
      {i, {"--norm-eps", "-1"}, "--norm-eps: bad value"},
      {i, {"--task", "classify", "--anchor-sizes", "1,2,3,4,5"}, "--anchor-sizes: not with"},
      {{}, {"--import", "w.pth", "--output", "m.onnx"}, "--import writes a checkpoint"},
      {{}, {"--checkpoint", "c.pt", "--output", "m.pt"}, "ONNX file (got the ending .pt"},
      {{}, {"--checkpoint", "c.pt", "--output", "m.ONNX"}, "(got the ending .ONNX"}};
  for (const auto& [first, more, text] : cases) {
    Words words = first;
    words.insert(words.end(), more.begin(), more.end());
    expect_one_line(run(words), 64, text);
  }
}

TEST_F(ConvertCli, CheckArgsTouchesNoFile) {
  for (const Words& words :
       {Words{"--checkpoint", "/none/c.pt", "--output", "/none/m"},
        {"--import", "/none/w.pth", "--output", "/none/c.pt", "--categories", "/none/a.json"}}) {
    Words all = words;
    all.emplace_back("--check-args");
    EXPECT_EQ(run(all).exit_code, 0);
  }
}

TEST_F(ConvertCli, ACheckpointThatIsMissingCutOrForeignIsRefused) {
  expect_one_line(convert(), 66, "c.pt");
  make_checkpoint(checkpoint_);
  const std::string bytes = read_file(checkpoint_);
  write_file_atomically(checkpoint_, bytes.substr(0, bytes.size() / 2));
  expect_one_line(convert(), 65, "cut short");
  write_file_atomically(checkpoint_, "hello");
  expect_one_line(convert(), 65, "not a checkpoint");
  EXPECT_FALSE(path_exists(output_));
}

TEST_F(ConvertCli, AnOutputThatCannotBeCreatedIs73) {
  make_checkpoint(checkpoint_);
  expect_one_line(convert({"--output", checkpoint_ + "/m.onnx"}), 73, "cannot create the folder");
  expect_one_line(convert({"--output", folder_.path()}), 73, "is a folder");
  write_file_atomically(root_, "a file");
  expect_one_line(convert(repository_), 73, "served");
}

TEST_F(ConvertCli, CudaWithoutAGpuIsUnavailable) {
  if (::access("/dev/nvidiactl", F_OK) == 0) GTEST_SKIP() << "this machine has a GPU";
  make_checkpoint(checkpoint_);
  expect_one_line(convert({"--device", "cuda"}), 69, "cuda");
}

TEST_F(ConvertCli, ConvertsAndSaysSoAndDoesNothingTheSecondTime) {
  make_checkpoint(checkpoint_);
  const Words more = {"--output", folder_ / "new/deep/m.onnx", "--max-detections", "50"};
  const ProcessResult first = convert(more);
  expect_done(first, "m.onnx: ");
  if (has_onnx_runtime()) {
    EXPECT_THAT(first.out, HasSubstr("verification: 1 image, "));
    EXPECT_THAT(first.out, HasSubstr("largest difference: box"));
  }
  EXPECT_FALSE(path_exists(folder_ / "new/deep/m.onnx.tmp"));

  const ProcessResult second = convert(more);
  expect_done(second, "already exists");
  EXPECT_EQ(lines_of(second.out), 1);

  Words other = more;
  other.insert(other.end(), {"--score-threshold", "0.3"});
  expect_one_line(convert(other), 78, "score-threshold");
  expect_no_import(folder_ / "new/deep/m.onnx", 65, "is an inference model of retina-convert");
  expect_no_import(checkpoint_, 65, "already a checkpoint of retina-batch");
}

TEST_F(ConvertCli, AClassifierTakesNoOptionsOfDetectors) {
  make_checkpoint(checkpoint_, {"--task", "classify"});
  for (const Words& more : {Words{"--score-threshold", "0.05"},
                            {"--nms-threshold", "0.5"},
                            {"--max-detections", "300"},
                            {"--no-postprocess"}}) {
    expect_one_line(convert(more), 78, cat(more[0], ": has no effect on a classifier"));
  }
  EXPECT_FALSE(path_exists(output_));
  expect_done(convert(repository_), "classifier: written");
  EXPECT_EQ(read_file(root_ + "/classifier/1/model.onnx"), read_file(output_));
  expect_done(convert({"--repository", root_, "--service-name", "pets"}), "pets: written");
  EXPECT_THAT(read_file(root_ + "/pets/config.pbtxt"), HasSubstr("name: \"pets\""));
}

TEST_F(ConvertCli, ARunsFolderMeansItsBestCheckpoint) {
  const std::string run_folder = folder_ / "run";
  make_folder(run_folder);
  make_checkpoint(run_folder + "/checkpoint-07.pt");
  const Words whole_run = {"--checkpoint", run_folder, "--log-level", "info"};
  const ProcessResult first = convert(whole_run);
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.err, HasSubstr("run: taking checkpoint-07.pt, the last"));
  expect_done(convert({"--checkpoint", run_folder + "/checkpoint-07.pt"}), "already exists");

  // A run that went on is another input.
  make_checkpoint(run_folder + "/checkpoint-08.pt", {"--seed", "9"});
  const ProcessResult moved = convert(whole_run);
  EXPECT_EQ(moved.exit_code, 78);
  EXPECT_THAT(moved.err, HasSubstr("was made with other inputs: checkpoint (was "));
}

// --- Repositories -------------------------------------------------------------------------------

TEST_F(ConvertCli, ARepositoryIsPartOfWhatIsDone) {
  make_checkpoint(checkpoint_);
  convert();
  const ProcessResult added = convert(repository_);
  expect_done(added, "m.onnx: already exists");
  EXPECT_THAT(added.out, HasSubstr("coco_retinanet: written"));
  EXPECT_EQ(read_file(model_), read_file(output_));
  const ProcessResult again = convert(repository_);
  expect_done(again, "already exist");
  EXPECT_EQ(lines_of(again.out), 1) << again.out;
  remove_file(config_);
  expect_done(convert(repository_), "coco_retinanet: written");
  EXPECT_TRUE(path_exists(config_));

  // A model made otherwise is refused before the work.
  const std::string old = read_file(model_);
  remove_file(output_);
  Words other = {"--repository", root_, "--max-detections", "7"};
  expect_one_line(convert(other), 78, "made with other inputs: max-detections (was ");
  EXPECT_FALSE(path_exists(output_));
  EXPECT_EQ(read_file(model_), old);
  other.emplace_back("--overwrite");
  EXPECT_EQ(convert(other).exit_code, 0);
  EXPECT_EQ(read_file(model_), read_file(output_));
  EXPECT_THAT(read_file(config_), HasSubstr("dims: [ 7, 4 ]"));
}

TEST_F(ConvertCli, ForeignFilesInARepositoryAreRefusedBeforeTheWork) {
  make_checkpoint(checkpoint_);
  make_folder(root_ + "/coco_retinanet");
  write_file_atomically(config_, "mine");
  expect_one_line(convert(repository_), 73, "holds something else (config.pbtxt)");
  EXPECT_FALSE(path_exists(output_));
  EXPECT_EQ(read_file(config_), "mine");
}

// --- Imports ------------------------------------------------------------------------------------

TEST_F(ConvertCli, FilesThatAreNoWeightsAreBadData) {
  for (const auto& [name, text] : {std::pair{"attack_zip", "posix.system"},
                                   {"attack_legacy", "posix.system"},
                                   {"whole_module", "Linear"},
                                   {"no_tensors", "its keys: epoch, note"},
                                   {"zip", "holds no ResNet, RegNet or MobileNetV3"}}) {
    expect_no_import(fixture(name), 65, text);
  }
  const std::string cut = folder_ / "cut.pth";
  for (const char* whole : {"zip", "legacy"}) {
    const std::string bytes = read_file(fixture(whole));
    write_file_atomically(cut, bytes.substr(0, bytes.size() - 7));
    expect_no_import(cut, 65, "cut short");
  }
  write_file_atomically(cut, "<html>404</html>");
  expect_no_import(cut, 65, "is a web page");
  expect_no_import(folder_ / "none.pth", 66, "none.pth");
  expect_one_line(run({"--import", fixture("zip"), "--categories", folder_ / "none.json",
                       "--output", folder_ / "i.pt"}),
                  66, "none.json");
}

}  // namespace
}  // namespace retina
