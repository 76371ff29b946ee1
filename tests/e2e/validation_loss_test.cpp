// The loss beside a validation's metrics.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "tests/e2e/job.h"
#include "tests/support/child_process.h"

namespace retina {
namespace {

using testing::HasSubstr;
using Words = std::vector<std::string>;

double last_validation(const std::string& run, const char* key) {
  return metric_lines(run, "validation").back().root().at("validation").at(key).as_double();
}

double mean_of_steps(const std::string& run, const char* key) {
  double sum = 0;
  const std::vector<JsonFile> steps = metric_lines(run, "step_ms");
  for (const JsonFile& line : steps) sum += line.root().at(key).as_double();
  return sum / static_cast<double>(steps.size());
}

// The eight images of the job's training set, one a step, as validation sees them; weights stay.
Words still(const Job& job, const std::string& run, const std::string& init, const Words& more) {
  Words words = job.train_command(run, 8, more);
  words.insert(words.end(), {"--init", init, "--augment", "none", "--norm", "frozen"});
  set_value(words, "--lr", "1e-30");
  set_value(words, "--images-per-step", "1");
  return words;
}

// Batch norm by its running statistics, weights by their average: what evaluation sees.
TEST(ValidationLoss, IsTheTrainingLossOfWhatIsValidated) {
  const Job job;
  Words words = job.train_command(
      job / "run", 4, {"--validation", job.train_shards(), "--ema", "0.5", "--norm", "batch"});
  set_value(words, "--lr", "0.01");
  const ProcessResult trained = run_process(words);
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  EXPECT_THAT(trained.err, HasSubstr(", loss "));
  const ProcessResult looked =
      run_process(still(job, job / "still", last_checkpoint(job / "run"), {}));
  ASSERT_EQ(looked.exit_code, 0) << looked.err;
  for (const char* key : {"loss", "classification_loss", "box_loss"}) {
    const double wanted = mean_of_steps(job / "still", key);
    EXPECT_GT(wanted, 0);
    EXPECT_NEAR(last_validation(job / "run", key) / wanted, 1, 1e-6) << key;
    RecordProperty(key, std::to_string(last_validation(job / "run", key) / wanted - 1));
  }
  EXPECT_THAT(read_file(job / "run/report.html"),
              HasSubstr("\"title\":\"Training and validation loss\""));
  EXPECT_THAT(read_file(job / "still/report.html"), HasSubstr("\"title\":\"Training loss\""));
}

TEST(ValidationLoss, OfAClassifierHasLabelSmoothing) {
  const Job job(Task::kClassification);
  const Words network = {"--label-smoothing", "0.2", "--min-side", "32", "--max-side", "40"};
  Words words = job.train_command(job / "run", 4, network);
  words.insert(words.end(), {"--validation", job.train_shards(), "--ema", "0.5"});
  set_value(words, "--backbone", "resnet18");
  ASSERT_EQ(run_process(words).exit_code, 0);
  Words looking = still(job, job / "still", last_checkpoint(job / "run"), network);
  set_value(looking, "--backbone", "resnet18");
  set_value(looking, "--steps", "12");
  const ProcessResult looked = run_process(looking);
  ASSERT_EQ(looked.exit_code, 0) << looked.err;
  const double wanted = mean_of_steps(job / "still", "cross_entropy");
  const double loss = last_validation(job / "run", "cross_entropy");
  EXPECT_NEAR(loss / wanted, 1, 1e-5);
  EXPECT_GT(std::abs(last_validation(job / "run", "loss") / loss - 1), 1e-3)
      << "the metric has none";
}

// Everything in the line: the metrics' bits and those of the losses.
TEST(ValidationLoss, HasTheSameBitsOnAnyNumberOfRanks) {
  const Job job;
  ASSERT_EQ(run_process(job.train_command(job / "run", 2)).exit_code, 0);
  Words lines;
  for (const int ranks : {1, 2, 3}) {
    const std::string run = job / ("on-" + std::to_string(ranks));
    Words words = still(job, run, last_checkpoint(job / "run"),
                        {"--validation", job.train_shards(), "--validation-images", "7"});
    set_value(words, "--steps", "1");
    set_value(words, "--images-per-step", "3");
    const ProcessResult result = run_on(ranks, words);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    lines.push_back(last_validation_line(run));
  }
  EXPECT_THAT(lines, testing::Each(lines.front()));
  EXPECT_THAT(lines.front(), HasSubstr("\"box_loss\":"));
}

}  // namespace
}  // namespace retina
