#include "train/insight/validation.h"

#include <utility>

#include "shared/base/cat.h"
#include "shared/base/stop_signal.h"
#include "shared/evaluation/ground_truth.h"
#include "shared/evaluation/pictures.h"

namespace retina {

Validation::Validation(const ShardSet& shards, DetectOptions options)
    : shards_(shards), options_(std::move(options)) {
  options_.should_stop = [] { return stop_signal() != 0; };
}

bool Validation::detect(RetinaNet& model, Communicator& communicator) {
  const std::vector<Detection> own =
      detect_share(model, ShardPictures(shards_), communicator, options_);
  if (communicator.all_reduce_max(stop_signal() != 0 ? 1 : 0) != 0) return false;
  detections_ = gather_detections(communicator, own);
  return true;
}

CocoMetrics Validation::score() {
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
