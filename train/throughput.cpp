#include "train/throughput.h"

#include <algorithm>
#include <numeric>

#include "shared/base/cat.h"
#include "shared/base/error.h"

namespace retina {
namespace {

constexpr std::size_t kWarmUpSteps = 2;
constexpr std::size_t kRanksListed = 16;

}  // namespace

void Throughput::add(int images_global, double step_ms, int images_own, double own_ms) {
  steps_.push_back({.images_global = images_global,
                    .images_own = images_own,
                    .step_ms = step_ms,
                    .own_ms = own_ms});
}

std::string Throughput::summary(Communicator& communicator) const {
  const std::size_t skipped = steps_.size() > 2 * kWarmUpSteps ? kWarmUpSteps : 0;
  double images = 0, milliseconds = 0, own_images = 0, own_milliseconds = 0;
  for (std::size_t i = skipped; i < steps_.size(); ++i) {
    images += steps_[i].images_global;
    milliseconds += steps_[i].step_ms;
    own_images += steps_[i].images_own;
    own_milliseconds += steps_[i].own_ms;
  }
  const double own_rate = own_milliseconds > 0 ? own_images / own_milliseconds * 1e3 : 0;
  const std::string bytes(reinterpret_cast<const char*>(&own_rate), sizeof own_rate);
  std::vector<double> rates;
  for (const std::string& part : communicator.gather(bytes, 0)) {
    RETINA_CHECK(part.size() == sizeof own_rate);
    std::copy_n(part.data(), sizeof own_rate, reinterpret_cast<char*>(&rates.emplace_back()));
  }
  if (!communicator.is_root() || milliseconds <= 0) return "";
  return throughput_text(images / milliseconds * 1e3,
                         static_cast<std::int64_t>(steps_.size() - skipped), rates);
}

std::string throughput_text(double images_per_second, std::int64_t step_count,
                            const std::vector<double>& rates) {
  if (rates.empty()) return "";
  const auto [least, most] = std::minmax_element(rates.begin(), rates.end());
  const double mean =
      std::accumulate(rates.begin(), rates.end(), 0.0) / static_cast<double>(rates.size());
  const auto rank_of = [&](auto place) { return place - rates.begin(); };
  std::string text = cat("images/s in total   ", fixed(images_per_second, 2), " over ", step_count,
                         " steps, ", rates.size(), rates.size() == 1 ? " rank\n" : " ranks\n");
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
