// retina-convert --repository as a user meets it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "shared/base/file.h"
#include "tests/convert/make_checkpoint.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;

class RepositoryCli : public testing::Test {
 protected:
  ProcessResult convert(const std::vector<std::string>& more) const {
    // Tests run side by side; more threads than cores spin on each other.
    ::setenv("OMP_NUM_THREADS", "1", 1);
    std::vector<std::string> arguments = {
        "retina-convert", "--checkpoint",          checkpoint_, "--output",
        output_,          "--verification-images", "1",         "--log-level",
        "error"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_process(arguments);
  }

  static void expect_one_line(const ProcessResult& result, int exit_code, const std::string& text) {
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    EXPECT_THAT(result.err, HasSubstr(text));
  }

  const TestFolder folder_;
  const std::string checkpoint_ = folder_ / "c.pt", output_ = folder_ / "m.onnx",
                    root_ = folder_ / "served", model_ = root_ + "/coco_retinanet/1/model.onnx",
                    config_ = root_ + "/coco_retinanet/config.pbtxt";
  const std::vector<std::string> repository_ = {"--repository", root_};
};

TEST_F(RepositoryCli, IsPartOfWhatIsDone) {
  make_checkpoint(checkpoint_);
  EXPECT_THAT(convert({}).out, HasSubstr("verification: 1 image,"));
  const auto added = convert(repository_);
  EXPECT_EQ(added.exit_code, 0) << added.err;
  EXPECT_THAT(added.out, HasSubstr("m.onnx: already exists"));
  EXPECT_THAT(added.out, HasSubstr("coco_retinanet: written"));
  EXPECT_EQ(read_file(model_), read_file(output_));

  const auto again = convert(repository_);
  EXPECT_EQ(std::count(again.out.begin(), again.out.end(), '\n'), 1) << again.out;
  EXPECT_THAT(again.out, HasSubstr("already exist"));

  remove_file(config_);
  EXPECT_THAT(convert(repository_).out, HasSubstr("coco_retinanet: written"));
  EXPECT_TRUE(path_exists(config_));
}

TEST_F(RepositoryCli, ComesWithTheModelUnderTheServicesName) {
  make_checkpoint(checkpoint_);
  const auto both = convert({"--repository", root_, "--service-name", "pets"});
  EXPECT_EQ(both.exit_code, 0) << both.err;
  EXPECT_THAT(both.out, HasSubstr("verification: 1 image,"));
  EXPECT_THAT(both.out, HasSubstr("pets: written"));
  EXPECT_THAT(read_file(root_ + "/pets/config.pbtxt"), HasSubstr("name: \"pets\""));
}

TEST_F(RepositoryCli, OfAClassifierHasANameOfItsOwn) {
  make_checkpoint(checkpoint_, {"--task", "classify"});
  const auto written = convert(repository_);
  EXPECT_EQ(written.exit_code, 0) << written.err;
  EXPECT_THAT(written.out, HasSubstr("classifier: written"));
  EXPECT_EQ(read_file(root_ + "/classifier/1/model.onnx"), read_file(output_));
  EXPECT_THAT(convert(repository_).out, HasSubstr("already exist"));
}

TEST_F(RepositoryCli, AModelMadeOtherwiseIsRefusedBeforeTheWork) {
  make_checkpoint(checkpoint_);
  convert(repository_);
  const std::string old = read_file(model_);
  remove_file(output_);
  const std::vector<std::string> other = {"--repository", root_, "--max-detections", "7"};
  expect_one_line(convert(other), 78, "made with other inputs: max-detections (was ");
  EXPECT_FALSE(path_exists(output_));
  EXPECT_EQ(read_file(model_), old);

  auto forced = other;
  forced.emplace_back("--overwrite");
  EXPECT_EQ(convert(forced).exit_code, 0);
  EXPECT_EQ(read_file(model_), read_file(output_));
  EXPECT_THAT(read_file(config_), HasSubstr("dims: [ 7, 4 ]"));
}

TEST_F(RepositoryCli, ForeignFilesAreRefusedBeforeTheWork) {
  make_checkpoint(checkpoint_);
  make_folder(root_ + "/coco_retinanet");
  write_file_atomically(config_, "mine");
  expect_one_line(convert(repository_), 73, "holds something else (config.pbtxt)");
  EXPECT_FALSE(path_exists(output_));
  EXPECT_EQ(read_file(config_), "mine");
}

TEST_F(RepositoryCli, AFolderThatCannotBeMadeIs73) {
  make_checkpoint(checkpoint_);
  write_file_atomically(root_, "a file");
  expect_one_line(convert(repository_), 73, "served");
}

TEST_F(RepositoryCli, WrongOptionsAreUsage) {
  expect_one_line(convert({"--service-name", "pets"}), 64,
                  "--service-name: has no effect without --repository");
  expect_one_line(convert({"--repository", root_, "--service-name", "../pets"}), 64, "not a name");
  expect_one_line(convert({"--repository", root_, "--no-postprocess"}), 64,
                  "--repository: the service gives detections");
  expect_one_line(
      run_process({"retina-convert", "--import", "w.pth", "--output", "c.pt", "--repository", "r"}),
      64, "--repository: has no effect with --import");
}

}  // namespace
}  // namespace retina
