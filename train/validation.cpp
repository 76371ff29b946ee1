#include "train/validation.h"

#include <utility>

#include "shared/base/cat.h"
#include "shared/evaluation/ground_truth.h"
#include "shared/evaluation/pictures.h"

namespace retina {

Validation::Validation(const ShardSet& shards, DetectOptions options)
    : shards_(shards), options_(std::move(options)) {}

std::optional<CocoMetrics> Validation::run(RetinaNet& model, Communicator& communicator) {
  detections_ = detect(*model, shards_, communicator, options_);
  if (!communicator.is_root()) return std::nullopt;
  if (!truth_) {
    truth_ = ground_truth_of(shards_);
    if (options_.max_images > 0) keep_images(*truth_, detected_images(shards_, options_));
  }
  return evaluate_detections(*truth_, detections_);
}

std::vector<Picture> Validation::pictures(std::size_t count) const {
  std::vector<Picture> pictures;
  draw_detections(shards_, detections_, {.count = count}, [&](const DrawnImage& drawn) {
    pictures.push_back(
        make_picture(drawn.image, cat("image ", drawn.image_id, ": ", drawn.found_count, " found, ",
                                      drawn.object_count, " objects")));
  });
  return pictures;
}

}  // namespace retina
