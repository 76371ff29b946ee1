// The number of ranks changes who loads what, not what is learnt.
#include <gtest/gtest.h>

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "shared/checkpoint/checkpoint.h"
#include "tests/e2e/job.h"
#include "tests/support/child_process.h"

namespace retina {
namespace {

constexpr int kSteps = 20;

TEST(Ranks, OneTimesFourAndTwoTimesTwoImagesLearnTheSame) {
  const Job job;
  const std::vector<std::string> v1 = {"--optimizer", "sgd",    "--norm", "frozen", "--head-norm",
                                       "none",        "--flip", "0.5",    "--lr",   "0.0001"};
  const auto train = [&](const std::string& run, int ranks) {
    auto command = job.train_command(run, kSteps);
    for (std::size_t i = 0; i + 1 < v1.size(); i += 2) {
      const auto found = std::find(command.begin(), command.end(), v1[i]);
      if (found != command.end()) {
        *(found + 1) = v1[i + 1];
      } else {
        command.insert(command.end(), {v1[i], v1[i + 1]});
      }
    }
    const ProcessResult result = run_process(ranks == 1 ? command : under_mpirun(ranks, command));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return load_checkpoint(last_checkpoint(run)).model;
  };
  const auto one = train(job / "one", 1);
  const auto two = train(job / "two", 2);
  ASSERT_EQ(one.size(), two.size());
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    ASSERT_EQ(one[i].name, two[i].name);
    const at::Tensor left = one[i].tensor.to(at::kDouble), right = two[i].tensor.to(at::kDouble);
    difference += (left - right).square().sum().item<double>();
    norm += left.square().sum().item<double>();
  }
  EXPECT_GT(difference, 0)
      << "other additions, other last bits: equal files would be one run twice";
  EXPECT_LE(std::sqrt(difference), 1e-5 * std::sqrt(norm));
  RecordProperty("relative_difference", std::to_string(std::sqrt(difference / norm)));
}

}  // namespace
}  // namespace retina
