#include "train/monitor/rank_times.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/host.h"
#include "shared/base/json.h"
#include "shared/base/measure.h"

namespace retina {
namespace {

constexpr double kSlower = 1.10;    // compared with the median rank
constexpr double kFeltShare = 0.5;  // share of the delay that the others notice
constexpr std::int64_t kStepsToCompare = 8;
constexpr std::size_t kRowsInTable = 32;

TimeShare share_of(const std::vector<double>& values) {
  return {.median_ms = median(values),
          .sum_ms = std::accumulate(values.begin(), values.end(), 0.0)};
}

}  // namespace

void RankLedger::add(const RankStep& step) {
  images_.push_back(step.images);
  compute_ms_.push_back(std::max(0.0, step.step_ms - step.data_wait_ms - step.comm_wait_ms));
  data_wait_ms_.push_back(step.data_wait_ms);
  comm_wait_ms_.push_back(step.comm_wait_ms);
}

std::vector<RankTimes> RankLedger::gather(Communicator& communicator) {
  const RankTimes own{.rank = communicator.rank(),
                      .node = host_name(),
                      .images = median(std::exchange(images_, {})),
                      .compute = share_of(std::exchange(compute_ms_, {})),
                      .data_wait = share_of(std::exchange(data_wait_ms_, {})),
                      .comm_wait = share_of(std::exchange(comm_wait_ms_, {}))};
  std::vector<RankTimes> all;
  for (const std::string& json : communicator.gather(to_json(own), 0)) {
    all.push_back(rank_times_from(JsonFile::parse(json, "times of a rank").root()));
  }
  return all;
}

std::optional<Straggler> find_straggler(const std::vector<RankTimes>& ranks,
                                        std::int64_t step_count) {
  if (ranks.size() < 2 || step_count < kStepsToCompare) return std::nullopt;
  const auto slowest = std::max_element(
      ranks.begin(), ranks.end(),
      [](const auto& a, const auto& b) { return a.own_ms_per_image() < b.own_ms_per_image(); });
  const double images = slowest->images > 0 ? slowest->images : 1;
  // The median of the other ranks; with two ranks, the other one.
  std::vector<double> own, compute, data, waits;
  for (const RankTimes& times : ranks) {
    if (times.rank == slowest->rank) continue;
    own.push_back(times.own_ms_per_image() * images);
    compute.push_back(times.per_image(times.compute.median_ms) * images);
    data.push_back(times.per_image(times.data_wait.median_ms) * images);
    waits.push_back(times.comm_wait.median_ms);
  }
  const double delay_ms = slowest->own_ms() - median(own);
  const double others_wait_ms = median(waits) - slowest->comm_wait.median_ms;
  if (!(slowest->own_ms() > kSlower * median(own)) || others_wait_ms < kFeltShare * delay_ms) {
    return std::nullopt;
  }
  return Straggler{.rank = slowest->rank,
                   .node = slowest->node,
                   .own_ms = slowest->own_ms(),
                   .median_ms = median(own),
                   .others_wait_ms = others_wait_ms,
                   .waits_for_data = slowest->data_wait.median_ms - median(data) >
                                     slowest->compute.median_ms - median(compute)};
}

std::string straggler_text(const Straggler& s) {
  return cat("rank ", s.rank, " (", s.node, ") is slow: ", fixed(s.own_ms, 1),
             " ms per step of its own work, against ", fixed(s.median_ms, 1),
             " ms on the median rank for the same number of images; the extra time is in ",
             s.waits_for_data ? "waiting for data" : "computing", "; the others wait ",
             fixed(s.others_wait_ms, 1), " ms longer per step than it does");
}

std::string Throughput::summary(Communicator& communicator) const {
  constexpr std::size_t kWarmUpSteps = 2;
  const std::size_t first = steps_.size() > 2 * kWarmUpSteps ? kWarmUpSteps : 0;
  double images = 0, milliseconds = 0, own_images = 0, own_milliseconds = 0;
  for (std::size_t i = first; i < steps_.size(); ++i) {
    const auto& [images_global, own] = steps_[i];
    images += static_cast<double>(images_global);
    milliseconds += own.step_ms;
    own_images += own.images;
    own_milliseconds += own.step_ms - own.comm_wait_ms;
  }
  const auto ranks = static_cast<std::size_t>(communicator.size());
  std::vector<double> rates(ranks);
  if (own_milliseconds > 0) {
    rates[static_cast<std::size_t>(communicator.rank())] = own_images / own_milliseconds * 1e3;
  }
  communicator.all_reduce(rates.data(), ranks, ElementType::kFloat64, ReduceOp::kSum);
  if (!communicator.is_root() || milliseconds <= 0) return "";
  const auto [least, most] = std::minmax_element(rates.begin(), rates.end());
  const double mean = std::accumulate(rates.begin(), rates.end(), 0.0) / static_cast<double>(ranks);
  return cat("images/s in total   ", fixed(images / milliseconds * 1e3, 2), " over ",
             counted(steps_.size() - first, "step"), ", ", counted(ranks, "rank"),
             "\nimages/s per rank   mean ", fixed(mean, 2), ", least ", fixed(*least, 2), " (rank ",
             least - rates.begin(), "), most ", fixed(*most, 2), " (rank ", most - rates.begin(),
             "), spread ", fixed(mean > 0 ? (*most - *least) / mean * 100 : 0, 1), " %\n");
}

Table rank_table(const std::vector<RankTimes>& ranks, std::int64_t step_count) {
  std::vector<RankTimes> rows = ranks;
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.own_ms_per_image() > b.own_ms_per_image();
  });
  Table table{.title = "Where the ranks' time goes",
              .columns = {"rank", "images", "compute ms", "data wait ms", "waits for gradients ms",
                          "compute s", "data wait s", "waits for gradients s"},
              .note = cat("Median per step and sum over ", counted(step_count, "step"),
                          ", slowest rank per image first. A rank waits for gradients until slower "
                          "ranks have theirs and the sums have arrived."),
              .wide = true};
  // Many ranks would make the page long: the slowest are enough.
  if (rows.size() > kRowsInTable) {
    table.note += cat(" The ", kRowsInTable, " slowest of ", rows.size(), ".");
    rows.resize(kRowsInTable);
  }
  for (const RankTimes& times : rows) {
    std::vector<std::string> cells = {cat(times.rank, " (", times.node, ")"),
                                      times.images > 0 ? shortest(times.images) : ""};
    for (const TimeShare& share : {times.compute, times.data_wait, times.comm_wait}) {
      cells.push_back(fixed(share.median_ms, 1));
    }
    for (const TimeShare& share : {times.compute, times.data_wait, times.comm_wait}) {
      cells.push_back(fixed(share.sum_ms * 1e-3, 1));
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

std::string to_json(const RankTimes& times) {
  JsonWriter json;
  json.begin_object().field("rank", times.rank).field("node", times.node);
  json.field("images", times.images);
  json.field("compute_ms", times.compute.median_ms).field("compute_sum_ms", times.compute.sum_ms);
  json.field("data_wait_ms", times.data_wait.median_ms)
      .field("data_wait_sum_ms", times.data_wait.sum_ms);
  json.field("comm_wait_ms", times.comm_wait.median_ms)
      .field("comm_wait_sum_ms", times.comm_wait.sum_ms);
  return json.end_object().text();
}

RankTimes rank_times_from(const JsonView& json) {
  const auto share = [&](const char* median, const char* sum) {
    return TimeShare{.median_ms = json.at(median).as_double(), .sum_ms = json.at(sum).as_double()};
  };
  return {.rank = static_cast<int>(json.at("rank").as_int()),
          .node = json.at("node").as_string(),
          .images = json.at("images").as_double(),
          .compute = share("compute_ms", "compute_sum_ms"),
          .data_wait = share("data_wait_ms", "data_wait_sum_ms"),
          .comm_wait = share("comm_wait_ms", "comm_wait_sum_ms")};
}

}  // namespace retina
