#include "shared/evaluation/predict/converted_run.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "shared/base/error.h"
#include "shared/comm/activity.h"
#include "shared/data/loader.h"
#include "shared/evaluation/predict/visits.h"

namespace retina {

namespace {

// Batches of images of one size, which they keep: over all visited images, before ranks share
// them.
std::vector<BatchRequest> plan_batches(const std::vector<IndexEntry>& index,
                                       const DetectOptions& options) {
  std::vector<BatchRequest> plan;
  std::map<std::pair<int, int>, std::size_t> open;  // (height, width) -> place in `plan`
  for (const std::size_t place : visited_places(index, options)) {
    const IndexEntry& entry = index[place];
    const auto [found, is_new] = open.try_emplace({entry.height, entry.width}, plan.size());
    if (is_new) {
      plan.push_back({.min_side_px = std::min(entry.width, entry.height),
                      .max_side_px = std::max(entry.width, entry.height),
                      .padded_width_px = padded_side_px(entry.width),
                      .padded_height_px = padded_side_px(entry.height)});
    }
    std::vector<Slot>& slots = plan[found->second].slots;
    slots.push_back({.record = place});
    if (slots.size() >= static_cast<std::size_t>(options.images_per_batch)) open.erase(found);
  }
  return plan;
}

// [N, 3, H, W] u8.
at::Tensor image_tensor(const Batch& batch) {
  const auto count = static_cast<std::int64_t>(batch.samples.size());
  const Sample& any = batch.samples.front();  // all have its size
  return at::from_blob(batch.stored.get(),
                       {count, any.original_height_px, any.original_width_px, 3}, at::kByte)
      .permute({0, 3, 1, 2})
      .contiguous();
}

// A model that was made for one size takes no other.
void check_sizes(const ConvertedModel& model, const std::vector<IndexEntry>& index,
                 const DetectOptions& options) {
  const std::optional<PixelSize>& image = model.header().form.image;
  if (!image) return;
  for (const std::size_t place : visited_places(index, options)) {
    const IndexEntry& entry = index[place];
    if (entry.height == image->height && entry.width == image->width) continue;
    throw Error(ErrorKind::kConfig,
                cat(model.path(), ": takes images of ", image->height, "x", image->width, " only (",
                    image_name(entry), " has ", entry.height, "x", entry.width, ", height first)"),
                "evaluate a model that was converted without --onnx-static, or images of that size "
                "alone");
  }
}

}  // namespace

void for_each_batch(ConvertedModel& model, const SampleSource& samples, Communicator& ranks,
                    const DetectOptions& options, const UseImages& use) {
  RETINA_CHECK(options.precision == Precision::kFp32);
  check_sizes(model, samples.index(), options);
  const std::vector<BatchRequest> plan =
      share_of_rank(plan_batches(samples.index(), options), ranks);
  std::int64_t total = 0, done = 0;
  for (const BatchRequest& request : plan) total += static_cast<std::int64_t>(request.slots.size());

  const PhaseScope phase(ranks.activity(), Phase::kValidate);
  const c10::InferenceMode no_gradients;
  LoaderOptions loading = loader_options(options, at::kCPU);
  loading.form = PixelForm::kStored;  // the model resizes and normalises
  BatchLoader loader(samples, loading, one_after_another(plan));
  while (const auto batch = loader.next()) {
    use(*batch, image_tensor(*batch));
    for (const Sample& sample : batch->samples) {
      if (sample.problem && options.on_skipped) {
        options.on_skipped(sample.slot.record, *sample.problem);
      }
    }
    tell_progress(ranks);
    done += static_cast<std::int64_t>(batch->samples.size());
    if (options.on_progress) options.on_progress(done, total);
  }
}

}  // namespace retina
