// From the annotations to a fixed order of images: what coco-pack works through.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "preprocess/options.h"
#include "shared/coco/categories.h"
#include "shared/coco/instances.h"
#include "shared/image/resize.h"
#include "shared/shard/record.h"

namespace retina {

// An image that the annotations list, with its boxes under dense labels, or with its class.
struct PlannedImage {
  std::int64_t id = 0;
  std::string file_name{};
  // Size that the annotations state; unset: none, the image is as large as it is.
  std::optional<ImageSize> stated_size{};
  std::span<const RecordAnnotation> annotations{};  // in the file's order; the plan's
  std::optional<int> label{};                       // in a classification set
};

// The boxes of all images in the file's order. A set may have tens of millions, so they are held
// once, in the form that records have; labels are places in category_ids until there is a plan.
class PlanBoxes : public AnnotationList {
 public:
  PlanBoxes() = default;
  // Takes them out of `instances`.
  explicit PlanBoxes(Instances& instances);

  void reserve(std::size_t count) override {
    boxes.reserve(count);
    image_of.reserve(count);
  }
  void add(const Annotation& annotation, std::size_t image) override;
  std::size_t size() const override { return boxes.size(); }
  Annotation at(std::size_t i) const override;
  std::size_t image(std::size_t i) const override { return image_of[i]; }
  // By category id.
  std::map<std::int64_t, std::int64_t> counts() const;

  std::vector<RecordAnnotation> boxes{};
  std::vector<std::uint32_t> image_of{};  // places in Instances::images
  std::vector<std::int64_t> category_ids{};

 private:
  std::unordered_map<std::int64_t, int> number_of_{};  // in category_ids
};

struct PackPlan {
  // A fixed permutation of the file's order (Philox, seed 0): neighbours in COCO files look alike,
  // and a shard should be a fair sample.
  std::vector<PlannedImage> images{};
  CategoryMap categories{};
  std::vector<RecordAnnotation> boxes{};  // image by image; a copy of the plan would not own them
};

// One of the two sets of --split.
struct SplitRule {
  SplitSide side{};
  std::string by{};     // "folder" or a pattern of file names; empty: each name for itself
  std::string input{};  // path that lists the images, for messages
  ImageSource images{};
  int thread_count = 1;  // for looking into files
};

// Drops the images that do not belong to the rule's side, and their boxes or classes
// (`image_labels`, empty where there are none). An image's group, which stays together, is its file
// name or what --split-by makes of it; images that are equal, byte for byte, unite their groups.
// Files that have the size of another one are looked into for that. Where one of the two sets would
// be empty, the group whose place is nearest to the share goes there, which the log says. Throws
// kConfig when there is only one group, or --split-by matches no name; else as ImageFolder::find,
// FileReader.
void keep_side(Instances& instances, PlanBoxes& boxes, std::vector<int>& image_labels,
               const SplitRule& rule);

// `image_labels`: of a classification set, the class of each image; else empty. `instances` without
// annotations, which are in `boxes`.
PackPlan make_pack_plan(Instances instances, PlanBoxes boxes, const std::vector<int>& image_labels);

// Moves the images of a part out of the plan, of N parts the Kth Nth, and copies their boxes. The
// others are not touched: processes of --parts share their memory.
PackPlan take_part(PackPlan& plan, const PackPart& part);

}  // namespace retina
