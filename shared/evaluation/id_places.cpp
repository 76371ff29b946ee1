#include "shared/evaluation/id_places.h"

#include <algorithm>

namespace retina {

IdPlaces::IdPlaces(std::span<const std::int64_t> ids) {
  if (ids.empty()) return;
  const auto [lowest, highest] = std::minmax_element(ids.begin(), ids.end());
  const auto range = static_cast<std::uint64_t>(*highest) - static_cast<std::uint64_t>(*lowest);
  if (range / 256 <= ids.size()) {
    lowest_ = *lowest;
    dense_.assign(range + 1, kNone);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      dense_[static_cast<std::uint64_t>(ids[i]) - static_cast<std::uint64_t>(lowest_)] =
          static_cast<std::uint32_t>(i);
    }
    return;
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    sorted_.push_back({ids[i], static_cast<std::uint32_t>(i)});
  }
  std::sort(sorted_.begin(), sorted_.end(),
            [](const Entry& a, const Entry& b) { return a.id < b.id; });
}

std::uint32_t IdPlaces::searched_place(std::int64_t id) const {
  const auto found =
      std::lower_bound(sorted_.begin(), sorted_.end(), id,
                       [](const Entry& entry, std::int64_t wanted) { return entry.id < wanted; });
  return found == sorted_.end() || found->id != id ? kNone : found->place;
}

IdPlaces image_places(const Instances& truth) {
  std::vector<std::int64_t> ids;
  ids.reserve(truth.images.size());
  for (const ImageInfo& image : truth.images) ids.push_back(image.id);
  std::sort(ids.begin(), ids.end());
  return IdPlaces(ids);
}

}  // namespace retina
