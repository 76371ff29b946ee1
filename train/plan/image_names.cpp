#include "train/plan/image_names.h"

#include "shared/base/log.h"

namespace retina {
namespace {

void append(std::string& names, std::int64_t image_id) {
  names += cat(names.empty() ? "" : ", ", image_id);
}

}  // namespace

std::string image_names(const GlobalStep& step, const std::vector<IndexEntry>& index) {
  std::string names;
  for (const Slot& slot : step.slots) append(names, index[slot.record].image_id);
  return names;
}

std::string image_names(const Batch& batch) {
  std::string names;
  for (const Sample& sample : batch.samples) {
    if (sample.slot.counts) append(names, sample.image_id);
  }
  return names;
}

void LeftOutWarning::look_at(const Batch& batch) {
  if (is_told_) return;
  for (const Sample& sample : batch.samples) {
    if (sample.left_out.empty()) continue;
    log_warning("image ", sample.image_id, ", annotation ", sample.left_out.front(),
                ": the box has no width or height inside the image and is not trained on, nor is "
                "any other such box that follows");
    is_told_ = true;
    return;
  }
}

}  // namespace retina
