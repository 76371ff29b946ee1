// Run by ctest under mpirun on 1 to 4 ranks: what 8 images teach does not depend on how many
// processes (and micro-batches) share them, with frozen norms and with batch norm over all ranks;
// nor, bit for bit, on whether buckets travel during backward, nor, summed in rank order, on the
// buckets; and PyTorch's reducer finds the same. Prints a row a comparison and ends with 1 when a
// bound is missed.
#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "shared/base/cat.h"
#include "shared/base/hash.h"
#include "shared/comm/communicator.h"
#include "shared/model/network_shape.h"
#include "tests/train/reduce/c10d_reducer.h"
#include "tests/train/reduce/shared_step.h"

namespace retina {
namespace {

constexpr Difference kF64 = {.of_norm = 1e-12, .of_tensor = 1e-10};
constexpr Difference kF32 = {.of_norm = 1e-5, .of_tensor = 1e-4};
constexpr Difference kSameBits = {};

const BucketOptions kWaiting = {.bucket_bytes = std::size_t{1} << 20, .overlap = false};
const BucketOptions kOrdered = {.bucket_bytes = std::size_t{1} << 20,
                                .wire = {.type = ElementType::kBFloat16, .ordered = true}};
const BucketOptions kOrderedDefault = {.wire = kOrdered.wire};

class Checker {
 public:
  explicit Checker(Communicator& communicator) : communicator_(communicator) {}

  // On rank 0: prints a row.
  void expect(const std::string& what, const Difference& found, const Difference& bound) {
    const bool good = found.of_norm <= bound.of_norm && found.of_tensor <= bound.of_tensor;
    good_ = good_ && good;
    std::printf(
        "%d images on %d ranks, %s: %.1e of the norm (bound %.0e), "
        "%.1e of the worst tensor's (bound %.0e)%s\n",
        kStepImages, communicator_.size(), what.c_str(), found.of_norm, bound.of_norm,
        found.of_tensor, bound.of_tensor, good ? "" : "  MISSED");
    std::fflush(stdout);
  }

  // All ranks have the same bits, so that rank 0 compares for all. Collective.
  void expect_on_all(const std::string& what, const NamedTensors& tensors) {
    Hasher hasher;
    for (const auto& [name, tensor] : tensors) {
      const at::Tensor plain = tensor.contiguous();
      hasher.update(plain.data_ptr(), static_cast<std::size_t>(plain.nbytes()));
    }
    const auto hash = static_cast<std::int64_t>(hasher.digest());
    std::int64_t root_hash = hash;
    communicator_.broadcast(&root_hash, 1, ElementType::kInt64, 0);
    if (hash == root_hash) return;
    std::printf("%s: rank %d has other bits than rank 0\n", what.c_str(), communicator_.rank());
    good_ = false;
  }

  // Of all ranks. Collective.
  bool good() { return communicator_.all_reduce_max(good_ ? 0 : 1) == 0; }

 private:
  Communicator& communicator_;
  bool good_ = true;
};

// Every rank's outputs on rank 0.
std::map<std::int64_t, at::Tensor> gathered(Communicator& communicator,
                                            const std::map<std::int64_t, at::Tensor>& own) {
  std::string bytes;
  for (const auto& [slot, values] : own) {
    bytes.append(reinterpret_cast<const char*>(&slot), sizeof slot);
    bytes.append(static_cast<const char*>(values.const_data_ptr()), values.nbytes());
  }
  std::map<std::int64_t, at::Tensor> all;
  const at::Tensor& like = own.begin()->second;
  for (const std::string& part : communicator.gather(bytes, 0)) {
    for (std::size_t at = 0; at < part.size(); at += sizeof(std::int64_t) + like.nbytes()) {
      std::int64_t slot = 0;
      std::memcpy(&slot, part.data() + at, sizeof slot);
      all[slot] = at::empty_like(like);
      std::memcpy(all[slot].mutable_data_ptr(), part.data() + at + sizeof slot, like.nbytes());
    }
  }
  return all;
}

// The gradients' sum over ranks by c10d::Reducer, which gives their mean.
StepResult step_by_c10d(Communicator& communicator, const MicroBatches& micro_batches) {
  RetinaNet model = step_model_f64(Norm::kFrozen);
  reduce_by_c10d(model, std::size_t{1} << 20, communicator, [&](const auto& before_last) {
    run_micro_batches_f64(model, micro_batches, [&](const DetectionLoss& loss, bool last) {
      if (last) before_last(loss.outputs);
    });
  });
  StepResult result = result_of(model);
  for (auto& gradient : result.gradients) gradient.tensor *= communicator.size();
  return result;
}

void check_frozen_norms(Communicator& communicator, Communicator& alone, Checker& checker) {
  // Three ranks have 2, 3 and 3 images: one micro-batch of rank 0 has none.
  const int micro_batch = communicator.size() == 3 ? 1 : 2;
  const MicroBatches micro_batches =
      step_micro_batches(communicator.rank(), communicator.size(), micro_batch);
  // A convolution of one image alone rounds otherwise than one of several.
  const MicroBatches whole = step_micro_batches(0, 1, micro_batch == 1 ? 1 : kStepImages);
  const StepResult narrow = step_f32(communicator, {.micro_batches = micro_batches});
  const StepResult narrow_waited =
      step_f32(communicator, {.buckets = kWaiting, .micro_batches = micro_batches});
  const StepResult wide = step_f64(communicator, {.micro_batches = micro_batches});
  const StepResult wide_waited =
      step_f64(communicator, {.buckets = kWaiting, .micro_batches = micro_batches});
  const StepResult ordered =
      step_f32(communicator, {.buckets = kOrdered, .micro_batches = micro_batches});
  const StepResult usual =
      step_f32(communicator, {.buckets = kOrderedDefault, .micro_batches = micro_batches});
  const StepResult theirs = step_by_c10d(communicator, micro_batches);
  if (!communicator.is_root()) return;
  checker.expect("bf16 in rank order, buckets of 1 MiB against the default",
                 compare(ordered.gradients, usual.gradients), kSameBits);
  checker.expect("f32 during backward against after it",
                 compare(narrow.gradients, narrow_waited.gradients), kSameBits);
  checker.expect("f64 during backward against after it",
                 compare(wide.gradients, wide_waited.gradients), kSameBits);
  checker.expect("f64 against c10d::Reducer", compare(wide.gradients, theirs.gradients), kF64);
  checker.expect("f64 against one rank",
                 compare(wide.gradients, step_f64(alone, {.micro_batches = whole}).gradients),
                 kF64);
  checker.expect("f32 against one rank",
                 compare(narrow.gradients, step_f32(alone, {.micro_batches = whole}).gradients),
                 kF32);
}

// Batch norm over all ranks, with `micro_batch` images a rank at once, against one rank whose
// micro-batches have the images of all.
void check_sync_bn(Communicator& communicator, Communicator& alone, int micro_batch,
                   Checker& checker) {
  const int ranks = communicator.size();
  const Sharing shared = {
      .norm = Norm::kBatch,
      .sync_bn = true,
      .micro_batches = step_micro_batches(communicator.rank(), ranks, micro_batch)};
  const std::string what = cat("--sync-bn, ", shared.micro_batches.size(), " micro-batch(es)");
  const StepResult ours = step_f64(communicator, shared);
  const auto outputs = gathered(communicator, ours.outputs);
  checker.expect_on_all(what, ours.gradients);
  checker.expect_on_all(what, ours.statistics);
  if (!communicator.is_root()) return;
  const StepResult theirs = step_f64(
      alone, {.norm = Norm::kBatch, .micro_batches = united_micro_batches(ranks, micro_batch)});
  checker.expect(what + ", f64 outputs", compare(outputs, theirs.outputs), kF64);
  checker.expect(what + ", f64 gradients", compare(ours.gradients, theirs.gradients), kF64);
  checker.expect(what + ", f64 running statistics", compare(ours.statistics, theirs.statistics),
                 kF64);
}

void check_sync_bn_overlap(Communicator& communicator, Checker& checker) {
  Sharing shared = {
      .norm = Norm::kBatch,
      .sync_bn = true,
      .micro_batches = step_micro_batches(communicator.rank(), communicator.size(), 1)};
  const StepResult during = step_f32(communicator, shared);
  shared.buckets = kWaiting;
  const StepResult after = step_f32(communicator, shared);
  checker.expect_on_all("--sync-bn, f32", during.statistics);
  if (!communicator.is_root()) return;
  checker.expect("--sync-bn, f32 during backward against after it",
                 compare(during.gradients, after.gradients), kSameBits);
}

int check(Communicator& communicator) {
  at::set_num_threads(1);  // ranks share the cores
  const auto alone = make_self_communicator();
  Checker checker(communicator);
  check_frozen_norms(communicator, *alone, checker);
  if (communicator.size() > 1) {
    check_sync_bn(communicator, *alone, kStepImages, checker);
    check_sync_bn(communicator, *alone, 1, checker);
    check_sync_bn_overlap(communicator, checker);
  }
  return checker.good() ? 0 : 1;
}

}  // namespace
}  // namespace retina

int main() {
  retina::MpiSession session;
  const auto communicator = session.make_communicator();
  const int code = retina::check(*communicator);
  session.finish();
  return code;
}
