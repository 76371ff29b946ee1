#include "train/scaling/scaling_model.h"

#include <algorithm>
#include <bit>

#include "shared/base/measure.h"

namespace retina {

double ScalingModel::exposed_seconds(int ranks) const {
  if (ranks == 1) return 0;
  double all = 0, last = 0;
  for (const double bytes : bucket_bytes) {
    last = all_reduce_seconds(ranks, links.link, bytes);
    all += last;
  }
  const int hops = std::bit_width(static_cast<unsigned>(ranks - 1));
  return std::max(last, all - overlap_seconds) + hops * links.link.latency_seconds;
}

std::optional<ScalingModel> fit_scaling(const std::vector<ScalingPoint>& points) {
  std::vector<double> own, overlap;
  std::vector<RingSamples> rings;
  const ScalingPoint* largest = nullptr;
  for (const ScalingPoint& point : points) {
    own.push_back(point.own_seconds);
    overlap.push_back(point.overlap_seconds);
    if (!point.samples.empty()) rings.push_back({.ranks = point.ranks, .samples = point.samples});
    if (largest == nullptr || point.ranks > largest->ranks) largest = &point;
  }
  if (rings.empty()) return std::nullopt;
  return ScalingModel{.own_seconds = median(own),
                      .overlap_seconds = median(overlap),
                      .bucket_bytes = largest->bucket_bytes,
                      .links = fit_links(rings)};
}

}  // namespace retina
