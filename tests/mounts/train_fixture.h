// A small training on file systems that misbehave; its calm run says what must come out. Of a
// classifier, the smallest there is: checkpoints and index are written alike for both tasks.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/e2e/job.h"
#include "tests/support/child_process.h"
#include "tests/support/faults/faulty.h"

namespace retina {

class TrainFixture : public testing::Test {
 protected:
  // Checkpoints: checkpoint-01-00000001.pt, checkpoint-01.pt (two steps are an epoch),
  // checkpoint-02-00000003.pt.
  static constexpr int kSteps = 3;

  // The data and the calm run are the same for every case.
  static void SetUpTestSuite() { set_up(Task::kClassification); }
  static void set_up(Task task);
  static void TearDownTestSuite();

  TrainFixture();

  std::string run() const { return folder_ / "out/run"; }
  // retina-train into run(): a checkpoint after each step, the newest two are kept.
  std::vector<std::string> command(const std::vector<std::string>& more = {}) const;

  // Runs it with faults and expects this exit code.
  ProcessResult train(const std::string& rules, int exit_code = 0,
                      const std::vector<std::string>& more = {}) const;

  // Trains to the end without faults; weights, optimizer and steps are those of the calm run.
  void expect_that_training_again_ends_well(const std::vector<std::string>& more = {}) const;

  // Weights and optimizer of the last checkpoint have the bits of the calm run's.
  void expect_the_calm_result() const;

  // Steps of the newest whole checkpoint in `run`; 0 without one.
  static std::int64_t newest_step(const std::string& run);

  static Job* job_;
  TestFolder folder_;
};

}  // namespace retina
