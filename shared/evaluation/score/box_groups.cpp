#include "shared/evaluation/score/box_groups.h"

#include <algorithm>
#include <numeric>

#include "shared/base/error.h"
#include "shared/base/parallel.h"
#include "shared/coco/categories.h"

namespace retina {

namespace {

// Sorts boxes by `groups` (each box's image or class, or IdPlaces::kNone for none) into `begin`
// [groups + 1] and `order`; boxes of a group keep their order.
void group_boxes(std::span<const std::uint32_t> groups, std::size_t group_count,
                 std::vector<std::uint32_t>& begin, std::vector<std::uint32_t>& order) {
  begin.assign(group_count + 1, 0);
  for (const std::uint32_t group : groups) {
    if (group != IdPlaces::kNone) ++begin[group + std::size_t{1}];
  }
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  order.resize(begin.back());
  std::vector<std::uint32_t> next(begin.begin(), begin.end() - 1);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (groups[i] != IdPlaces::kNone) order[next[groups[i]]++] = static_cast<std::uint32_t>(i);
  }
}

std::vector<std::uint32_t> places_by_id(const std::vector<ImageInfo>& images) {
  std::vector<std::uint32_t> places(images.size());
  std::iota(places.begin(), places.end(), 0U);
  std::sort(places.begin(), places.end(),
            [&](std::uint32_t a, std::uint32_t b) { return images[a].id < images[b].id; });
  return places;
}

std::vector<std::int64_t> ids_of(const std::vector<ImageInfo>& images,
                                 std::span<const std::uint32_t> places) {
  std::vector<std::int64_t> ids;
  for (const std::uint32_t place : places) ids.push_back(images[place].id);
  return ids;
}

std::vector<std::int64_t> ids_of(const Categories& categories) {
  const CategoryMap sorted(categories);
  std::vector<std::int64_t> ids;
  for (const Category& one : sorted.all()) ids.push_back(one.id);
  return ids;
}

}  // namespace

BoxGroups::BoxGroups(const Instances& truth, const std::vector<Detection>& detections,
                     int thread_count, std::uint32_t detection_limit, const std::string& name)
    : truth_(truth),
      detections_(detections),
      image_at_(places_by_id(truth.images)),
      image_places_(ids_of(truth.images, image_at_)),
      class_count_(static_cast<std::uint32_t>(truth.categories.size())),
      detection_limit_(detection_limit) {
  RETINA_CHECK(std::max(detections.size(), truth.annotations.size()) < IdPlaces::kNone,
               "too many boxes");
  const IdPlaces labels(ids_of(truth.categories));
  place_objects(labels);
  place_detections(labels, thread_count, name);
  sort_images(labels, thread_count);
  sort_classes(thread_count);

  if (std::is_sorted(image_at_.begin(), image_at_.end())) return;
  std::vector<std::uint32_t> counts(image_count());
  for (std::size_t i = 0; i < counts.size(); ++i) {
    counts[image_at_[i]] = found_begin[i + 1] - found_begin[i];
  }
  std::exclusive_scan(counts.begin(), counts.end(), counts.begin(), std::uint32_t{0});
  for (const std::uint32_t place : image_at_) file_begin_.push_back(counts[place]);
}

void BoxGroups::place_objects(const IdPlaces& labels) {
  std::vector<std::uint32_t> image_of(truth_.annotations.size());
  for (std::size_t i = 0; i < image_of.size(); ++i) {
    const Annotation& one = truth_.annotations[i];
    image_of[i] = image_places_.place_of(one.image_id);
    RETINA_CHECK(
        image_of[i] != IdPlaces::kNone && labels.place_of(one.category_id) != IdPlaces::kNone,
        "annotation ", one.id, " dangles");
  }
  group_boxes(image_of, image_count(), truth_begin, annotation);
  truth_label.resize(annotation.size());
  for (std::size_t g = 0; g < annotation.size(); ++g) {
    truth_label[g] = labels.place_of(object(g).category_id);
  }
}

void BoxGroups::place_detections(const IdPlaces& labels, int thread_count,
                                 const std::string& name) {
  std::vector<std::uint32_t> image_of(detections_.size());
  constexpr std::size_t kBlock = 16384;
  for_each_parallel((detections_.size() + kBlock - 1) / kBlock, thread_count, [&](std::size_t b) {
    for (std::size_t i = b * kBlock; i < std::min(detections_.size(), (b + 1) * kBlock); ++i) {
      const Detection& one = detections_[i];
      image_of[i] = image_places_.place_of(one.image_id);
      if (image_of[i] == IdPlaces::kNone) fail_foreign_image(name);
      if (labels.place_of(one.category_id) == IdPlaces::kNone) image_of[i] = IdPlaces::kNone;
    }
  });
  group_boxes(image_of, image_count(), found_begin, entry);
}

void BoxGroups::sort_images(const IdPlaces& labels, int thread_count) {
  label.resize(entry.size());
  score.resize(entry.size());
  constexpr std::size_t kBlock = 64;
  for_each_parallel((image_count() + kBlock - 1) / kBlock, thread_count, [&](std::size_t b) {
    for (std::size_t i = b * kBlock; i < std::min(image_count(), (b + 1) * kBlock); ++i) {
      std::stable_sort(entry.begin() + found_begin[i], entry.begin() + found_begin[i + 1],
                       [&](std::uint32_t one, std::uint32_t other) {
                         return detections_[one].score > detections_[other].score;
                       });
      for (std::uint32_t slot = found_begin[i]; slot < found_begin[i + 1]; ++slot) {
        score[slot] = detection(slot).score;
        label[slot] = labels.place_of(detection(slot).category_id);
      }
    }
  });
}

void BoxGroups::sort_classes(int thread_count) {
  group_boxes(label, class_count_, class_begin_, by_class_);
  for_each_parallel(class_count_, thread_count, [&](std::size_t one) {
    std::stable_sort(by_class_.begin() + class_begin_[one],
                     by_class_.begin() + class_begin_[one + 1],
                     [&](std::uint32_t a, std::uint32_t b) { return score[a] > score[b]; });
  });
}

std::uint32_t BoxGroups::image_of(std::uint32_t slot) const {
  const auto next = std::upper_bound(found_begin.begin(), found_begin.end(), slot);
  return static_cast<std::uint32_t>(next - found_begin.begin() - 1);
}

void BoxGroups::fail_foreign_image(const std::string& name) const {
  const auto first =
      std::find_if(detections_.begin(), detections_.end(), [&](const Detection& one) {
        return image_places_.place_of(one.image_id) == IdPlaces::kNone;
      });
  throw Error(ErrorKind::kData,
              cat(name, ": entry ", first - detections_.begin(), ": image id ", first->image_id,
                  " is not in the annotations (they have ", counted(image_count(), "image"), ")"),
              "score detections against the annotations of the images they were made on");
}

}  // namespace retina
