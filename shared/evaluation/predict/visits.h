// Who detects on what: the part of `detect` that both kinds of model share.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <vector>

#include "shared/comm/communicator.h"
#include "shared/data/loader.h"
#include "shared/evaluation/predict/detect.h"
#include "shared/shard/shard_set.h"

namespace retina {

// Places in `index` of the images to visit, ascending.
std::vector<std::size_t> visited_places(const std::vector<IndexEntry>& index,
                                        const DetectOptions& options);

// Every rank_count-th entry, beginning with the rank's own number: neighbours cost about the same,
// so the ranks' shares do too.
template <class T>
std::vector<T> share_of_rank(const std::vector<T>& all, const Communicator& ranks) {
  std::vector<T> share;
  for (auto i = static_cast<std::size_t>(ranks.rank()); i < all.size();
       i += static_cast<std::size_t>(ranks.size())) {
    share.push_back(all[i]);
  }
  return share;
}

// How `detect` loads, where the model is on `device`.
LoaderOptions loader_options(const DetectOptions& options, const c10::Device& device);

// The requests of `plan`, which must outlive it.
BatchLoader::RequestSource one_after_another(const std::vector<BatchRequest>& plan);

// A detection in COCO's form: f32 corners in pixels of the original image -> xywh, as torchvision's
// reference evaluation converts them.
Detection coco_detection(std::int64_t image_id, std::int64_t category_id,
                         const std::array<float, 4>& corners, float score);

}  // namespace retina
