#include "train/validation.h"

#include <set>
#include <utility>

#include "shared/base/cat.h"
#include "shared/coco/categories.h"
#include "shared/evaluation/ground_truth.h"
#include "shared/image/draw.h"
#include "shared/image/jpeg.h"

namespace retina {
namespace {

constexpr double kPictureScore = 0.4;  // detections below are not drawn

// Ground truth of the images that are validated on.
Instances read_truth(const ShardSet& shards, const DetectOptions& options) {
  Instances truth = ground_truth_of(shards);
  if (options.max_images <= 0) return truth;
  std::set<std::int64_t> kept;
  for (const auto& entry : detected_images(shards, options)) kept.insert(entry.image_id);
  std::erase_if(truth.images, [&](const auto& image) { return kept.count(image.id) == 0; });
  std::erase_if(truth.annotations,
                [&](const auto& item) { return kept.count(item.image_id) == 0; });
  return truth;
}

}  // namespace

Validation::Validation(const ShardSet& shards, DetectOptions options)
    : shards_(shards), options_(std::move(options)) {}

std::optional<CocoMetrics> Validation::run(RetinaNet& model, Communicator& communicator) {
  detections_ = detect(*model, shards_, communicator, options_);
  if (!communicator.is_root()) return std::nullopt;
  if (!truth_) truth_ = read_truth(shards_, options_);
  return evaluate_detections(*truth_, detections_);
}

std::vector<Picture> Validation::pictures(std::size_t count) const {
  const CategoryMap categories([&] {
    std::vector<Category> list;
    for (const auto& item : shards_.manifest().categories) {
      list.push_back({item.id, item.name, item.supercategory});
    }
    return list;
  }());
  std::vector<Picture> pictures;
  JpegDecoder decoder;
  for (std::size_t place = 0; place < shards_.index().size() && pictures.size() < count; ++place) {
    const IndexEntry& entry = shards_.index()[place];
    if (entry.trainable_count == 0) continue;
    const Record record = shards_.read(place);
    Image image;
    if (!decoder.decode(record.jpeg.data(), record.jpeg.size(), image).ok) continue;
    std::size_t drawn = 0;
    for (const Detection& detection : detections_) {
      if (detection.image_id != entry.image_id || detection.score < kPictureScore) continue;
      const int label = categories.label_of(detection.category_id).value_or(0);
      const auto& [x, y, width, height] = detection.bbox;
      draw_box(image, {x, y, x + width, y + height}, {.colour = label_colour(label)},
               cat(categories.at(label).name, " ", fixed(detection.score, 2)));
      ++drawn;
    }
    pictures.push_back(
        make_picture(image, cat("image ", entry.image_id, ": ", drawn, " detections, ",
                                entry.trainable_count, " objects")));
  }
  return pictures;
}

}  // namespace retina
