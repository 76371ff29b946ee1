// From the ids of a data set, which are any numbers, to places in its lists.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "shared/coco/instances.h"

namespace retina {

// Places of ids in a list: a table when they are dense, else a search.
class IdPlaces {
 public:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  explicit IdPlaces(std::span<const std::int64_t> ids);
  std::uint32_t place_of(std::int64_t id) const {
    if (dense_.empty()) return searched_place(id);
    const auto offset = static_cast<std::uint64_t>(id) - static_cast<std::uint64_t>(lowest_);
    return offset < dense_.size() ? dense_[offset] : kNone;
  }

 private:
  struct Entry {
    std::int64_t id;
    std::uint32_t place;
  };
  std::uint32_t searched_place(std::int64_t id) const;
  std::int64_t lowest_ = 0;
  std::vector<std::uint32_t> dense_;  // by id - lowest_
  std::vector<Entry> sorted_;
};

// Of the images in ascending id order.
IdPlaces image_places(const Instances& truth);

}  // namespace retina
