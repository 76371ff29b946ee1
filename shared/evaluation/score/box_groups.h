// The boxes of an evaluation in the orders that its passes need: by image and by class, best
// detections first. Made once and read by all.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "shared/coco/instances.h"
#include "shared/coco/results.h"

namespace retina {

// Maps the ids of a data set, which may be any numbers, to their places in an ascending list.
class IdPlaces {
 public:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  explicit IdPlaces(std::vector<std::int64_t> ascending_ids) : ids_(std::move(ascending_ids)) {}
  std::uint32_t place_of(std::int64_t id) const {
    const auto found = std::lower_bound(ids_.begin(), ids_.end(), id);
    return found == ids_.end() || *found != id ? kNone
                                               : static_cast<std::uint32_t>(found - ids_.begin());
  }

 private:
  std::vector<std::int64_t> ids_;
};

// Number of best detections of an image and class that count: COCO's, and that for detection by
// tiles, where an image may hold thousands of objects.
inline constexpr std::uint32_t kMaxDetectionsPerImage = 100, kMaxDetectionsOnTiles = 10'000;

// Returns true for a box that is never a hit.
inline bool is_empty(const std::array<double, 4>& xywh) {
  return xywh[2] == 0 || xywh[3] == 0;
}

// Groups the boxes. Images are identified by their place in ascending image id, classes by theirs
// in ascending category id (the label), objects and detections by "slot". Takes 20 bytes a
// detection.
class BoxGroups {
 public:
  // Keeps references to both, which must outlive this. `name`: of the detections, for errors.
  // Throws Error{kData} naming the first image id of a detection that is not in `truth`, or a
  // category id that `truth` has twice. `thread_count` 0: usable_cores(); the result never depends
  // on it.
  BoxGroups(const Instances& truth, const std::vector<Detection>& detections, int thread_count = 0,
            std::uint32_t detection_limit = kMaxDetectionsPerImage,
            const std::string& name = "detections");

  const Instances& truth() const { return truth_; }
  const std::vector<Detection>& detections() const { return detections_; }
  const ImageInfo& image(std::size_t place) const { return truth_.images[image_at_[place]]; }
  // Returns the place of an image id of `truth`.
  std::uint32_t image_place(std::int64_t id) const { return image_places_.place_of(id); }
  // Returns the image of a detection's slot.
  std::uint32_t image_of(std::uint32_t slot) const;
  const Annotation& object(std::size_t slot) const { return truth_.annotations[annotation[slot]]; }
  const Detection& detection(std::size_t slot) const { return detections_[entry[slot]]; }
  // Returns the number of best detections of an image and class that count in this evaluation.
  std::uint32_t detection_limit() const { return detection_limit_; }
  std::size_t image_count() const { return image_at_.size(); }
  std::uint32_t class_count() const { return class_count_; }
  // Returns the slots of a class, best first, equal scores by slot.
  std::span<const std::uint32_t> of_class(std::size_t one) const {
    return std::span(by_class_).subspan(class_begin_[one],
                                        class_begin_[one + 1] - class_begin_[one]);
  }
  // Returns true if the ids of truth.images do not ascend.
  bool images_are_shuffled() const { return !file_begin_.empty(); }
  // Returns the slot that a detection of `image` would have if images kept the file's order.
  std::uint32_t slot_in_file_order(std::uint32_t image, std::uint32_t slot) const {
    return images_are_shuffled() ? file_begin_[image] + (slot - found_begin[image]) : slot;
  }

  // Objects: by image, within it in the file's order.
  std::vector<std::uint32_t> truth_begin{};  // [images + 1] first slot
  std::vector<std::uint32_t> annotation{};   // [objects] place in truth.annotations
  std::vector<std::uint32_t> truth_label{};  // [objects]

  // Detections: by image, within it best first, equal scores in the file's order. Those of unknown
  // categories are left out.
  std::vector<std::uint32_t> found_begin{};  // [images + 1] first slot
  std::vector<std::uint32_t> entry{};        // [detections] place in the file
  std::vector<std::uint32_t> label{};        // [detections]
  std::vector<double> score{};               // [detections]

 private:
  void place_objects(const IdPlaces& labels);
  void place_detections(const IdPlaces& labels, int thread_count, const std::string& name);
  void sort_images(const IdPlaces& labels, int thread_count);
  void sort_classes(int thread_count);
  [[noreturn]] void fail_foreign_image(const std::string& name) const;

  const Instances& truth_;
  const std::vector<Detection>& detections_;
  std::vector<std::uint32_t> image_at_;  // [images] place in truth.images
  IdPlaces image_places_;
  std::uint32_t class_count_ = 0, detection_limit_ = 0;
  std::vector<std::uint32_t> file_begin_{};  // [images] first slot in the file's order, if another
  std::vector<std::uint32_t> class_begin_{}, by_class_{};
};

}  // namespace retina
