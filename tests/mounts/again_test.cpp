// Running retina-train and retina-eval again: finished, with other settings, with inputs that have
// changed, twice at once, with --overwrite.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/output.h"
#include "tests/mounts/train_fixture.h"

namespace retina {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

using Words = std::vector<std::string>;

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Exit code 0 and one line, which says what is there.
void expect_one_line(const Words& command) {
  const ProcessResult result = run_process(command);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(count_of("\n", result.out), 1) << result.out;
  EXPECT_EQ(count_of("error", result.err) + count_of("warning", result.err), 0) << result.err;
}

// Exit code 78 and one error that names every one of `keys`.
void expect_refusal(const Words& command, const Words& keys) {
  const ProcessResult result = run_process(command);
  EXPECT_EQ(result.exit_code, 78) << result.err;
  EXPECT_EQ(count_of("error:", result.err), 1) << result.err;
  for (const std::string& key : keys) EXPECT_THAT(result.err, HasSubstr(key));
}

class Again : public TrainFixture {
 protected:
  static void SetUpTestSuite() { set_up(Task::kDetection); }
  std::string annotations() const { return *job_ / "scenes/annotations/instances_val2017.json"; }
  std::string images() const { return *job_ / "scenes/images/val2017"; }
  std::string checkpoint() const { return last_checkpoint(*job_ / "calm"); }
};

TEST_F(Again, RetinaTrain) {
  const std::string set = folder_ / "set";
  fs::copy(job_->train_shards(), set);
  const auto train = [&](int steps) { return small_train_command(set, run(), steps); };
  ASSERT_EQ(run_process(train(2)).exit_code, 0);
  expect_one_line(train(2));
  fs::rename(set, folder_ / "moved");
  const Words moved = small_train_command(folder_ / "moved", run(), 2);
  expect_one_line(moved + Words{"--keep", "7", "--log-level", "debug", "--expect-ranks", "1",
                                "--scratch", folder_ / "local"});
  expect_refusal(moved + Words{"--optimizer", "momentum=0.5", "--seed", "9"},
                 {"momentum (was 0.9, now 0.5)", "seed (was ", "now 9", "--overwrite"});
  const auto other_data = small_train_command(job_->val_shards(), run(), 2);
  expect_refusal(other_data, {"the contents of --train"});
  expect_refusal(moved + Words{"--resume", "never"}, {"already holds a run"});

  const ProcessResult longer = run_process(small_train_command(folder_ / "moved", run(), 3));
  EXPECT_EQ(longer.exit_code, 0) << longer.err;
  EXPECT_EQ(steps_logged(run()), 3);
  EXPECT_EQ(run_process(moved + Words{"--seed", "9", "--overwrite"}).exit_code, 0);
  EXPECT_EQ(steps_logged(run()), 2);
}

TEST_F(Again, RetinaTrainFromWeightsThatChangeOrVanish) {
  const std::string weights = folder_ / "weights.pt";
  fs::copy_file(checkpoint(), weights);
  const Words train =
      job_->train_command(run(), 1, {"--init", weights, "--norm", "batch", "--seed", "3"});
  const ProcessResult first = run_process(train);
  ASSERT_EQ(first.exit_code, 0) << first.err;
  expect_one_line(train);
  fs::copy_file(last_checkpoint(run()), weights, fs::copy_options::overwrite_existing);
  expect_refusal(train, {"the contents of --init"});
  fs::remove(weights);
  expect_one_line(train);
  const ProcessResult fresh = run_process(train + Words{"--overwrite"});
  EXPECT_EQ(fresh.exit_code, 66) << fresh.err;
  EXPECT_THAT(fresh.err, HasSubstr("weights.pt"));
}

// A run's folder stands for its best checkpoint when the other run begins.
TEST_F(Again, RetinaTrainFromARunThatGoesOnMeanwhile) {
  const std::string source = folder_ / "source";
  ASSERT_EQ(run_process(small_train_command(job_->train_shards(), source, 1)).exit_code, 0);
  const Words train =
      job_->train_command(run(), 1, {"--init", source, "--norm", "batch", "--seed", "3"});
  const ProcessResult first = run_process(train);
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.err, HasSubstr("taking checkpoint-01-00000001.pt"));
  expect_one_line(train);
  ASSERT_EQ(run_process(small_train_command(job_->train_shards(), source, 2)).exit_code, 0);
  expect_one_line(train);
  const Words longer =
      job_->train_command(run(), 2, {"--init", source, "--norm", "batch", "--seed", "3"});
  EXPECT_EQ(run_process(longer).exit_code, 0);
  EXPECT_EQ(steps_logged(run()), 2);
  fs::remove_all(source);
  expect_one_line(longer);
  const ProcessResult refused = run_process(longer + Words{"--resume", run()});
  EXPECT_EQ(refused.exit_code, 65);
  EXPECT_THAT(refused.err, HasSubstr("is a folder (want a checkpoint); hint: "));
}

TEST_F(Again, RetinaTrainWritesTheReportThatAKilledRunOwes) {
  ASSERT_EQ(run_process(command()).exit_code, 0);
  fs::remove(run() + "/report.html");
  expect_that_training_again_ends_well();
}

TEST_F(Again, RetinaTrainFinishedWhereNothingCanBeWritten) {
  RETINA_FAULTS_OR_SKIP();
  const std::string read_only = "open=EROFS path=" + run();
  ASSERT_EQ(run_process(command()).exit_code, 0);
  expect_one_line(faulty(read_only, command()));
  expect_refusal(faulty(read_only, command({"--seed", "9"})), {"seed"});
  fs::remove(run() + "/report.html");  // there is something left to write
  EXPECT_EQ(run_process(faulty(read_only, command())).exit_code, 73);
}

TEST_F(Again, RetinaEval) {
  const std::string output = folder_ / "evaluation", model = folder_ / "model.pt";
  fs::copy_file(checkpoint(), model);
  const auto evaluate = [&](const std::string& what) {
    return Words{"retina-eval", "--model", what,       "--data", job_->val_shards(),
                 "--output",    output,    "--device", "cpu"};
  };
  ASSERT_EQ(run_process(evaluate(model)).exit_code, 0);
  expect_one_line(evaluate(model));
  expect_one_line(evaluate(checkpoint()) + Words{"--threads", "2", "--log-level", "warning"});
  expect_refusal(evaluate(model) + Words{"--score-threshold", "0.3"}, {"score-threshold"});
  fs::copy_file(*job_ / "calm/checkpoint-01.pt", model, fs::copy_options::overwrite_existing);
  expect_refusal(evaluate(model), {"model"});
  fs::remove(output + "/metrics.json");  // as a killed one leaves it
  EXPECT_EQ(run_process(evaluate(checkpoint())).exit_code, 0);
  EXPECT_TRUE(path_exists(output + "/metrics.json"));
  EXPECT_EQ(run_process(evaluate(model) + Words{"--overwrite"}).exit_code, 0);
  expect_one_line(evaluate(model));

  const Words score = {"retina-eval",   "--detections", output + "/detections.json",
                       "--annotations", annotations(),  "--output"};
  expect_refusal(score + Words{output}, {"detections", "model"});
  ASSERT_EQ(run_process(score + Words{folder_ / "scores"}).exit_code, 0);
  expect_one_line(score + Words{folder_ / "scores"});
  write_file_atomically(output + "/detections.json", "[]");
  expect_refusal(score + Words{folder_ / "scores"}, {"detections"});
}

TEST_F(Again, TwoJobsAtOnceInOnePlaceAreRefused) {
  make_folder(run());
  make_folder(folder_ / "evaluation");
  const FolderLock train(run()), evaluation(folder_ / "evaluation");
  const FileLock model(folder_ / "model.onnx");
  const std::vector<Words> commands = {
      command(),
      {"coco-pack", "--annotations", annotations(), "--images", images(), "--output", run()},
      {"retina-eval", "--model", checkpoint(), "--data", job_->val_shards(), "--output",
       folder_ / "evaluation", "--device", "cpu"},
      {"retina-convert", "--checkpoint", checkpoint(), "--output", folder_ / "model.onnx"}};
  for (const Words& one : commands) expect_refusal(one, {"another process is writing here"});
}

}  // namespace
}  // namespace retina
