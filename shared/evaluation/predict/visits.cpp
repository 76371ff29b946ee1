#include "shared/evaluation/predict/visits.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "shared/evaluation/predict/gather.h"
#include "shared/model/device.h"

namespace retina {

std::vector<std::size_t> visited_places(const std::vector<IndexEntry>& index,
                                        const DetectOptions& options) {
  std::vector<std::size_t> places(index.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  if (options.max_images <= 0 || static_cast<std::size_t>(options.max_images) >= index.size()) {
    return places;
  }
  std::sort(places.begin(), places.end(),
            [&](std::size_t a, std::size_t b) { return index[a].image_id < index[b].image_id; });
  places.resize(static_cast<std::size_t>(options.max_images));
  std::sort(places.begin(), places.end());
  return places;
}

std::vector<IndexEntry> detected_images(const ShardSet& shards, const DetectOptions& options) {
  std::vector<IndexEntry> images;
  for (const std::size_t place : visited_places(shards.index(), options)) {
    images.push_back(shards.index()[place]);
  }
  return images;
}

LoaderOptions loader_options(const DetectOptions& options, const c10::Device& device) {
  LoaderOptions loading{.threads = options.decode_threads,
                        .most_threads = options.most_decode_threads,
                        .prefetch_batches = options.prefetch_batches};
  if (device.is_cuda()) loading.allocate = allocate_pinned;
  return loading;
}

BatchLoader::RequestSource one_after_another(const std::vector<BatchRequest>& plan) {
  return [&plan, next = std::size_t{0}]() mutable -> std::optional<BatchRequest> {
    if (next == plan.size()) return std::nullopt;
    return plan[next++];
  };
}

Detection coco_detection(std::int64_t image_id, std::int64_t category_id,
                         const std::array<float, 4>& corners, float score) {
  const float width = corners[2] - corners[0], height = corners[3] - corners[1];
  return {.image_id = image_id,
          .category_id = category_id,
          .bbox = {corners[0], corners[1], width, height},
          .score = score};
}

std::vector<Detection> gather_detections(Communicator& ranks,
                                         const std::vector<Detection>& detections) {
  return gather_by_image(ranks, detections);
}

}  // namespace retina
