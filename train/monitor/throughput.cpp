#include "train/monitor/throughput.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/measure.h"

namespace retina {
namespace {

constexpr std::size_t kWarmUpSteps = 2;
constexpr std::size_t kRanksListed = 16;

}  // namespace

void Throughput::add(const StepMetrics& metrics) {
  steps_.push_back({.images_global = metrics.images,
                    .images_own = metrics.images_own,
                    .step_ms = metrics.step_ms,
                    .own_ms = metrics.step_ms - metrics.exposed_comm_ms,
                    .comm_ms = metrics.reduce.traffic.seconds * 1e3,
                    .comm_bytes = static_cast<double>(metrics.reduce.traffic.bytes),
                    .overlap_ms = metrics.reduce.overlap_seconds * 1e3});
}

std::vector<Throughput::Step> Throughput::measured_steps() const {
  const std::size_t skipped = steps_.size() > 2 * kWarmUpSteps ? kWarmUpSteps : 0;
  return {steps_.begin() + static_cast<std::ptrdiff_t>(skipped), steps_.end()};
}

ScalingRun Throughput::scaling_run(Communicator& communicator,
                                   std::vector<double> bucket_bytes) const {
  const std::vector<Step> steps = measured_steps();
  // Every rank waits for the slowest, so its median is the step's.
  const auto slowest_median_seconds = [&](double Step::*time_ms) {
    std::vector<double> values;
    for (const Step& step : steps) values.push_back(step.*time_ms);
    double seconds = median(std::move(values)) * 1e-3;
    communicator.all_reduce(&seconds, 1, ElementType::kFloat64, ReduceOp::kMax);
    return seconds;
  };
  ScalingRun run{.ranks = communicator.size(),
                 .step_count = static_cast<std::int64_t>(steps.size()),
                 .step_seconds = slowest_median_seconds(&Step::step_ms),
                 .own_seconds = slowest_median_seconds(&Step::own_ms),
                 .overlap_seconds = slowest_median_seconds(&Step::overlap_ms),
                 .comm_seconds = slowest_median_seconds(&Step::comm_ms)};
  const double gradient_bytes = std::accumulate(bucket_bytes.begin(), bucket_bytes.end(), 0.0);
  if (!steps.empty() && steps.back().comm_bytes > 0) {
    for (double& bytes : bucket_bytes) bytes *= steps.back().comm_bytes / gradient_bytes;
  }
  run.bucket_bytes = std::move(bucket_bytes);
  double images = 0;
  for (const Step& step : steps) images += static_cast<double>(step.images_global);
  images /= std::max(1.0, static_cast<double>(steps.size()));
  run.images_per_second = run.step_seconds > 0 ? images / run.step_seconds : 0;
  return run;
}

std::string Throughput::summary(Communicator& communicator) const {
  const std::vector<Step> steps = measured_steps();
  double images = 0, milliseconds = 0, own_images = 0, own_milliseconds = 0;
  for (const Step& step : steps) {
    images += static_cast<double>(step.images_global);
    milliseconds += step.step_ms;
    own_images += step.images_own;
    own_milliseconds += step.own_ms;
  }
  const double own_rate = own_milliseconds > 0 ? own_images / own_milliseconds * 1e3 : 0;
  const std::string bytes(reinterpret_cast<const char*>(&own_rate), sizeof own_rate);
  std::vector<double> rates;
  for (const std::string& part : communicator.gather(bytes, 0)) {
    RETINA_CHECK(part.size() == sizeof own_rate);
    std::copy_n(part.data(), sizeof own_rate, reinterpret_cast<char*>(&rates.emplace_back()));
  }
  if (!communicator.is_root() || milliseconds <= 0) return "";
  return throughput_text(images / milliseconds * 1e3, static_cast<std::int64_t>(steps.size()),
                         rates);
}

std::string throughput_text(double images_per_second, std::int64_t step_count,
                            const std::vector<double>& rates) {
  if (rates.empty()) return "";
  const auto [least, most] = std::minmax_element(rates.begin(), rates.end());
  const double mean =
      std::accumulate(rates.begin(), rates.end(), 0.0) / static_cast<double>(rates.size());
  const auto rank_of = [&](auto place) { return place - rates.begin(); };
  std::string text = cat("images/s in total   ", fixed(images_per_second, 2), " over ",
                         counted(step_count, "step"), ", ", counted(rates.size(), "rank"), "\n");
  text += cat("images/s per rank   mean ", fixed(mean, 2), ", least ", fixed(*least, 2), " (rank ",
              rank_of(least), "), most ", fixed(*most, 2), " (rank ", rank_of(most), "), spread ",
              fixed(mean > 0 ? (*most - *least) / mean * 100 : 0, 1), " %\n");
  if (rates.size() > 1 && rates.size() <= kRanksListed) {
    for (std::size_t rank = 0; rank < rates.size(); ++rank) {
      text +=
          cat("  rank ", rank, "            ", rank < 10 ? " " : "", fixed(rates[rank], 2), "\n");
    }
  }
  return text;
}

}  // namespace retina
