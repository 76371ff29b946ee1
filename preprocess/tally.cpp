#include "preprocess/tally.h"

#include <algorithm>

#include "shared/anchor/anchor.h"
#include "shared/image/resize.h"

namespace retina {
namespace {

// retina-train's defaults: below this IoU an anchor counts as background (Lin et al. 2017).
constexpr double kBackgroundIou = 0.4;
constexpr int kMinSidePx = 800, kMaxSidePx = 1333;

bool is_far_from_anchors(const RecordAnnotation& annotation, double scale) {
  static const AnchorCoverage coverage({32, 64, 128, 256, 512});
  return coverage.best_iou(annotation.bbox[2] * scale, annotation.bbox[3] * scale) < kBackgroundIou;
}

}  // namespace

void Tally::add(const Record& record) {
  const double scale = resized_size(record.width, record.height, kMinSidePx, kMaxSidePx).scale;
  counts.images += 1;
  counts.images_without_boxes += record.annotations.empty() ? 1 : 0;
  counts.rescaled += record.rescaled ? 1 : 0;
  counts.converted += record.converted ? 1 : 0;
  for (const RecordAnnotation& annotation : record.annotations) {
    const bool trainable = is_trainable(annotation, record.width, record.height);
    counts.boxes += 1;
    counts.crowds += annotation.iscrowd ? 1 : 0;
    counts.trainable += trainable ? 1 : 0;
    if (!trainable && !annotation.iscrowd) {
      counts.degenerate += 1;
      if (first_degenerate.size() < kNamedBoxes) first_degenerate.push_back(annotation.id);
    }
    far_from_anchors += trainable && is_far_from_anchors(annotation, scale) ? 1 : 0;
    const auto label = static_cast<std::size_t>(annotation.label);
    if (label < boxes_of_class.size()) boxes_of_class[label] += 1;
  }
}

IndexEntry index_entry(const Record& record, const RecordPlace& at) {
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
          .labels = trainable_labels(record)};
}

}  // namespace retina
