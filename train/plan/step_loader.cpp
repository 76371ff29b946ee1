#include "train/plan/step_loader.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

namespace retina {
namespace {

// Produces the loader's requests, on a thread that runs ahead of the loop.
class StepRequests {
 public:
  explicit StepRequests(const StepLoaderInput& input) : input_(input), next_step_(input.begin) {}

  std::optional<BatchRequest> next() {
    if (micro_batches_.empty()) {
      while (input_.skipped.contains(next_step_)) ++next_step_;
      if (next_step_ >= input_.end) return std::nullopt;
      for (BatchRequest& micro_batch : rank_micro_batches(input_.plan.at(next_step_++), input_.rank,
                                                          input_.rank_count, input_.micro_batch)) {
        micro_batches_.push_back(std::move(micro_batch));
      }
    }
    BatchRequest request = std::move(micro_batches_.front());
    micro_batches_.pop_front();
    return request;
  }

 private:
  StepLoaderInput input_;
  std::int64_t next_step_;
  std::deque<BatchRequest> micro_batches_;
};

}  // namespace

std::unique_ptr<BatchLoader> load_steps(const StepLoaderInput& input) {
  LoaderOptions loader;
  loader.threads = input.threads.first;
  loader.most_threads = input.threads.most;
  loader.form = input.form;
  loader.allocate = input.allocate;
  auto requests = std::make_shared<StepRequests>(input);
  return std::make_unique<BatchLoader>(input.source, loader,
                                       [requests] { return requests->next(); });
}

std::vector<std::size_t> shards_ahead(const StepLoaderInput& input, const RecordRange& set) {
  const std::int64_t epoch_steps = input.plan.steps_per_data_epoch();
  StepLoaderInput two_epochs = input;
  two_epochs.end = std::min(input.end, (input.begin / epoch_steps + 2) * epoch_steps);
  StepRequests requests(two_epochs);
  std::vector<std::size_t> shards;
  std::set<std::size_t> seen;
  while (const std::optional<BatchRequest> request = requests.next()) {
    for (const Slot& slot : request->slots) {
      if (!slot.counts || slot.record < set.begin || slot.record >= set.end) continue;
      const std::size_t shard = input.plan.index()[slot.record].shard;
      if (seen.insert(shard).second) shards.push_back(shard);
    }
  }
  return shards;
}

}  // namespace retina
