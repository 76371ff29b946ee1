// Ten steps of training against torchvision's, with the trainer's own replica; and the same steps
// with a stop in the middle.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "shared/comm/communicator.h"
#include "tests/parity/golden.h"
#include "tests/parity/table.h"
#include "tests/support/test_folder.h"
#include "train/step/replica.h"

namespace retina {
namespace {

constexpr std::int64_t kSteps = 10;

Batch golden_batch() {
  Batch batch;
  const at::Tensor images = golden_images().contiguous();
  batch.images = std::make_shared<float[]>(static_cast<std::size_t>(images.numel()));
  std::copy_n(images.const_data_ptr<float>(), images.numel(), batch.images.get());
  batch.padded.height = kGoldenPadded.height;
  batch.padded.width = kGoldenPadded.width;
  for (const BoxTargets& target : golden_targets()) {
    Sample sample;
    for (std::int64_t i = 0; i < target.boxes.size(0); ++i) {
      const float* box = target.boxes.const_data_ptr<float>() + 4 * i;
      sample.boxes.push_back({box[0], box[1], box[2], box[3]});
      sample.labels.push_back(target.labels[i].item<std::int64_t>());
    }
    batch.samples.push_back(sample);
  }
  batch.part.real_image_count = static_cast<int>(batch.samples.size());
  return batch;
}

class TrainingParity : public testing::TestWithParam<const char*> {
 protected:
  // torchvision's recipe: SGD with momentum .9, weight decay 1e-4; no warm-up.
  Replica make_replica(std::uint64_t seed) {
    ReplicaOptions options;
    options.task.model = golden_config(name_);
    options.task.loss = golden_loss_options(name_);
    options.task.seed = seed;
    return Replica(options, *communicator_);
  }
  // Makes updates `first` + 1 to `end` and returns both losses before each.
  std::vector<StepSums> train(Replica& replica, std::int64_t first, std::int64_t end) {
    std::vector<StepSums> losses;
    for (std::int64_t step = first; step < end; ++step) {
      replica.backward(replica.loss(replica.forward(batch_), batch_),
                       batch_.part.is_last_micro_batch);
      replica.all_reduce();
      replica.update(learning_rate_, step + 1);
      losses.push_back(replica.take_metrics());
    }
    return losses;
  }

  const std::string name_ = GetParam();
  const double learning_rate_ = name_.starts_with("v1") ? 5e-5 : 2e-5;  // as make_golden.py
  const JsonFile golden_ = read_golden(name_ + ".json");
  const std::unique_ptr<Communicator> communicator_ = make_self_communicator();
  const Batch batch_ = golden_batch();
};

TEST_P(TrainingParity, TheLossCurveIsTorchvisionsAndAStopInTheMiddleChangesNoBit) {
  Replica whole = make_replica(1);
  set_golden_weights(whole.network());
  std::vector<StepSums> curve = train(whole, 0, kSteps / 2);
  Checkpoint half_way;
  whole.snapshot(half_way);
  const auto second_half = train(whole, kSteps / 2, kSteps);
  curve.insert(curve.end(), second_half.begin(), second_half.end());

  double worst = 0;
  for (std::size_t step = 0; step < curve.size(); ++step) {
    const JsonView golden = golden_.root().at("curve").at(step);
    worst = std::max({worst,
                      std::abs(curve[step].of_task[0] / golden.at(std::size_t{0}).as_double() - 1),
                      std::abs(curve[step].of_task[1] / golden.at(1).as_double() - 1)});
  }
  EXPECT_TRUE(holds({"10 SGD steps, both losses, relative", name_, worst, 1e-4}));
  EXPECT_LT(curve.back().of_task[0] + curve.back().of_task[1],
            curve.front().of_task[0] + curve.front().of_task[1]);

  const TestFolder folder;
  save_checkpoint(folder / "half.pt", half_way);
  Replica resumed = make_replica(2);
  resumed.restore(load_checkpoint(folder / "half.pt"), kSteps / 2, "half.pt");
  const auto again = train(resumed, kSteps / 2, kSteps);
  int differing = 0;
  for (std::size_t i = 0; i < again.size(); ++i) {
    differing += again[i].of_task != second_half[i].of_task;
  }
  const NamedTensors ours = state_of(resumed.network()), theirs = state_of(whole.network());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    differing += ours[i].tensor.equal(theirs[i].tensor) ? 0 : 1;
  }
  EXPECT_TRUE(holds(
      {"resume after 5 steps: tensors not bit-equal", name_, static_cast<double>(differing), 0}));
}

INSTANTIATE_TEST_SUITE_P(, TrainingParity, testing::ValuesIn(kGoldenCases),
                         [](const auto& case_info) { return std::string(case_info.param); });

}  // namespace
}  // namespace retina
