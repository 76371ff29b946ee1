#include "preprocess/tally.h"

#include <algorithm>

#include "shared/base/cat.h"
#include "shared/base/printable.h"

namespace retina {

bool is_cut(const RecordAnnotation& annotation, const Record& record) {
  if (!record.tile) return false;
  constexpr double kRoundingPx = 1e-6;
  const auto& [x, y, width, height] = annotation.bbox;
  const TilePlace& tile = *record.tile;
  return (tile.x > 0 && x <= 0) || (tile.y > 0 && y <= 0) ||
         (tile.x + record.width < tile.image_width && x + width >= record.width - kRoundingPx) ||
         (tile.y + record.height < tile.image_height && y + height >= record.height - kRoundingPx);
}

void Tally::add(const Record& record) {
  const auto count_label = [this](int label) {
    const auto place = static_cast<std::size_t>(label);
    if (place < label_counts.size()) label_counts[place] += 1;
  };
  counts.images += 1;
  counts.rescaled += record.rescaled ? 1 : 0;
  counts.converted += record.converted ? 1 : 0;
  if (record.label) {
    count_label(*record.label);
    return;
  }
  counts.images_without_boxes += record.annotations.empty() ? 1 : 0;
  if (record.whole_annotations) {
    counts.tiled_images += 1;
    counts.whole_boxes += std::ssize(*record.whole_annotations);
  }
  if (!record.tile || record.whole_annotations) degenerate_of_image_.clear();
  for (const RecordAnnotation& annotation : record.annotations) {
    const auto box = training_box(annotation, record.width, record.height);
    const bool trainable = box.has_value();
    counts.boxes += 1;
    counts.crowds += annotation.iscrowd ? 1 : 0;
    counts.trainable += trainable ? 1 : 0;
    if (trainable) ++box_sizes[bin_of(*box, record.width, record.height)];
    counts.partial += annotation.is_partial ? 1 : 0;
    counts.cut += trainable && is_cut(annotation, record) ? 1 : 0;
    if (!trainable && !annotation.iscrowd && !annotation.is_partial) {
      counts.degenerate += 1;
      const bool is_new = !record.tile || degenerate_of_image_.insert(annotation.id).second;
      degenerate_annotations += is_new ? 1 : 0;
      if (is_new && first_degenerate.size() < kNamedBoxes) {
        first_degenerate.push_back(
            cat(annotation.id, " of ", image_name(record.image_id, record.file_name)));
      }
    }
    count_label(annotation.label);
  }
}

IndexEntry index_entry(const Record& record, std::uint64_t image_xxh3, const RecordPlace& at,
                       std::span<const int> labels) {
  const auto trainable =
      std::count_if(record.annotations.begin(), record.annotations.end(),
                    [&](const RecordAnnotation& annotation) {
                      return is_trainable(annotation, record.width, record.height);
                    });
  return {.image_id = record.image_id,
          .width = record.width,
          .height = record.height,
          .box_count = static_cast<std::uint32_t>(record.annotations.size()),
          .trainable_count = static_cast<std::uint32_t>(trainable),
          .shard = at.shard,
          .place = at.place,
          .labels = labels,
          .file_name = record.file_name,
          .image_xxh3 = image_xxh3,
          .tile = record.tile};
}

}  // namespace retina
