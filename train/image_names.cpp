#include "train/image_names.h"

#include "shared/base/cat.h"

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

}  // namespace retina
