#include "train/plan/image_names.h"

#include "shared/base/cat.h"
#include "shared/base/printable.h"
#include "shared/shard/tile.h"

namespace retina {
namespace {

void append(std::string& names, const std::string& name) {
  names += cat(names.empty() ? "" : ", ", name);
}

}  // namespace

std::string image_name(const Sample& sample) {
  const std::string name = image_name(sample.image_id, sample.file_name);
  if (!sample.tile) return name;
  const auto& [x, y, width, height] = *sample.tile;
  return cat(name, ", ", tile_text({.x = x, .y = y}, width, height));
}

std::string image_names(const GlobalStep& step, const ImageIndex& index) {
  std::string names;
  for (const Slot& slot : step.slots) {
    const IndexEntry entry = index[slot.record];
    append(names, image_name(entry));
    if (entry.tile) append(names, tile_text(*entry.tile, entry.width, entry.height));
  }
  return names;
}

std::string image_names(const Batch& batch) {
  std::string names;
  for (const Sample& sample : batch.samples) {
    if (sample.slot.counts) append(names, image_name(sample));
  }
  return names;
}

}  // namespace retina
