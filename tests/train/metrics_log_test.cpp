#include "train/metrics_log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "shared/base/file.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

StepMetrics step_metrics(std::int64_t step) {
  return {.step = step,
          .epoch = 1,
          .classification_loss = 0.1 * static_cast<double>(step),
          .box_loss = 0.2,
          .learning_rate = 1e-4,
          .memory_bytes = 77};
}

TEST(MetricsLog, ReadsBackWhatItWrote) {
  const TestFolder folder;
  {
    MetricsLog log(folder / "m", 0);
    log.append(step_metrics(1));
    log.append(ValidationMetrics{.step = 1, .epoch = 1, .stats = {0.25, 0.5}});
    log.sync();
  }
  const MetricsLog log(folder / "m", 1);
  ASSERT_EQ(log.steps().size(), 1U);
  EXPECT_EQ(log.steps()[0].classification_loss, 0.1);
  EXPECT_EQ(log.steps()[0].memory_bytes, 77);
  ASSERT_EQ(log.validations().size(), 1U);
  EXPECT_EQ(log.validations()[0].stats[1], 0.5);
}

TEST(MetricsLog, IsCutToTheStepThatTrainingContinuesFrom) {
  const TestFolder folder;
  {
    MetricsLog log(folder / "m", 0);
    for (std::int64_t step = 1; step <= 5; ++step) log.append(step_metrics(step));
  }
  {
    MetricsLog log(folder / "m", 3);
    EXPECT_EQ(log.steps().size(), 3U);
    log.append(step_metrics(4));
  }
  EXPECT_EQ(MetricsLog(folder / "m", 100).steps().size(), 4U);
}

TEST(MetricsLog, DropsALineThatWasCutInHalf) {
  const TestFolder folder;
  { MetricsLog(folder / "m", 0).append(step_metrics(1)); }
  std::ofstream(folder / "m", std::ios::app) << "{\"step\":2,\"ep";
  const MetricsLog log(folder / "m", 10);
  EXPECT_EQ(log.steps().size(), 1U);
  EXPECT_EQ(read_file(folder / "m").back(), '\n');
}

TEST(MetricsLog, KeepsANumberThatIsNotFiniteReadable) {
  const TestFolder folder;
  StepMetrics bad = step_metrics(1);
  bad.gradient_norm = std::nan("");
  { MetricsLog(folder / "m", 0).append(bad); }
  EXPECT_EQ(MetricsLog(folder / "m", 1).steps().size(), 1U);
}

}  // namespace
}  // namespace retina
