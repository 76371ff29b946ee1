#include "shared/evaluation/score/box_groups.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <numeric>
#include <set>
#include <string>

#include "shared/base/error.h"
#include "shared/base/host.h"
#include "shared/base/parallel.h"
#include "shared/coco/categories.h"

namespace retina {

namespace {

// A detection during sorting. `order` decides between equal scores.
struct Ranked {
  double score = 0;
  std::uint32_t order = 0;

  bool operator<(const Ranked& other) const {
    return score != other.score ? score > other.score : order < other.order;
  }
};

// Returns bits of a score that sort the highest score first. 0 and -0 are equal.
std::uint64_t descending_bits(double score) {
  const auto bits = std::bit_cast<std::uint64_t>(score + 0.0);
  return (bits >> 63) != 0 ? bits : ~bits & ~(std::uint64_t{1} << 63);
}

// Sorts best first, from ascending `order`: a radix sort by the upper 33 bits of the score, then by
// the lower ones among neighbours that differ in them only. Twice as fast as std::sort.
void sort_ranked(std::vector<Ranked>& boxes) {
  constexpr int kDigitBits = 11, kDigits = 3;
  constexpr std::size_t kBuckets = std::size_t{1} << kDigitBits;
  if (boxes.size() < kBuckets / 4) {
    std::sort(boxes.begin(), boxes.end());
    return;
  }
  std::array<std::array<std::uint32_t, kBuckets>, kDigits> next{};
  const auto digit = [](const Ranked& box, int place) {
    const int shift = 64 - kDigitBits * (kDigits - place);
    return static_cast<std::size_t>(descending_bits(box.score) >> shift) & (kBuckets - 1);
  };
  for (const Ranked& box : boxes) {
    for (int place = 0; place < kDigits; ++place) {
      ++next[static_cast<std::size_t>(place)][digit(box, place)];
    }
  }
  std::vector<Ranked> buffer(boxes.size());
  for (int place = 0; place < kDigits; ++place) {
    auto& starts = next[static_cast<std::size_t>(place)];
    std::exclusive_scan(starts.begin(), starts.end(), starts.begin(), std::uint32_t{0});
    for (const Ranked& box : boxes) buffer[starts[digit(box, place)]++] = box;
    std::swap(boxes, buffer);
  }
  // Stable so far, so only lower bits can be out of order.
  for (auto begin = boxes.begin(), end = begin; begin != boxes.end(); begin = end) {
    const std::uint64_t upper = descending_bits(begin->score) >> 31;
    bool sorted = true;
    for (++end; end != boxes.end() && descending_bits(end->score) >> 31 == upper; ++end) {
      sorted = sorted && !(*end < *(end - 1));
    }
    if (!sorted) std::sort(begin, end);
  }
}

// Sorts boxes by `images` (each box's image, or IdPlaces::kNone) into `begin` and `order`; boxes of
// an image keep their order.
void group_boxes(std::span<const std::uint32_t> images, std::size_t image_count, int thread_count,
                 std::vector<std::uint32_t>& begin, std::vector<std::uint32_t>& order) {
  const auto wanted = static_cast<std::size_t>(thread_count > 0 ? thread_count : usable_cores());
  const std::size_t part_count = std::clamp<std::size_t>(images.size() / 4096, 1, wanted);
  const auto part_begin = [&](std::size_t part) { return images.size() * part / part_count; };
  std::vector<std::vector<std::uint32_t>> next(part_count);
  for_each_parallel(part_count, thread_count, [&](std::size_t part) {
    next[part].assign(image_count, 0);
    for (std::size_t i = part_begin(part); i < part_begin(part + 1); ++i) {
      if (images[i] != IdPlaces::kNone) ++next[part][images[i]];
    }
  });
  begin.assign(image_count + 1, 0);
  std::uint32_t total = 0;
  for (std::size_t image = 0; image < image_count; ++image) {
    begin[image] = total;
    for (auto& counts : next) {
      const std::uint32_t count = counts[image];
      counts[image] = total;
      total += count;
    }
  }
  begin[image_count] = total;
  order.resize(total);
  for_each_parallel(part_count, thread_count, [&](std::size_t part) {
    for (std::size_t i = part_begin(part); i < part_begin(part + 1); ++i) {
      if (images[i] != IdPlaces::kNone) {
        order[next[part][images[i]]++] = static_cast<std::uint32_t>(i);
      }
    }
  });
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

IdPlaces::IdPlaces(std::span<const std::int64_t> ascending_ids) {
  if (ascending_ids.empty()) return;
  const auto range = static_cast<std::uint64_t>(ascending_ids.back()) -
                     static_cast<std::uint64_t>(ascending_ids.front());
  if (range / 256 > ascending_ids.size()) {
    ids_.assign(ascending_ids.begin(), ascending_ids.end());
    return;
  }
  lowest_ = ascending_ids.front();
  dense_.assign(range + 1, kNone);
  for (std::size_t i = 0; i < ascending_ids.size(); ++i) {
    dense_[static_cast<std::uint64_t>(ascending_ids[i]) - static_cast<std::uint64_t>(lowest_)] =
        static_cast<std::uint32_t>(i);
  }
}

std::uint32_t IdPlaces::searched_place(std::int64_t id) const {
  const auto found = std::lower_bound(ids_.begin(), ids_.end(), id);
  if (found == ids_.end() || *found != id) return kNone;
  return static_cast<std::uint32_t>(found - ids_.begin());
}

BoxGroups::BoxGroups(const Instances& truth, const std::vector<Detection>& detections,
                     int thread_count, std::uint32_t detection_limit)
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
  place_detections(labels, thread_count);
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
  group_boxes(image_of, image_count(), 1, truth_begin, annotation);
  truth_label.resize(annotation.size());
  for (std::size_t g = 0; g < annotation.size(); ++g) {
    truth_label[g] = labels.place_of(object(g).category_id);
  }
}

void BoxGroups::place_detections(const IdPlaces& labels, int thread_count) {
  std::vector<std::uint32_t> image_of(detections_.size());
  std::atomic<std::int64_t> low_scores{0}, high_scores{0}, empty_boxes{0};
  constexpr std::size_t kBlock = 16384;
  for_each_parallel((detections_.size() + kBlock - 1) / kBlock, thread_count, [&](std::size_t b) {
    const std::size_t end = std::min(detections_.size(), (b + 1) * kBlock);
    std::int64_t low = 0, high = 0, empty = 0;
    for (std::size_t i = b * kBlock; i < end; ++i) {
      const Detection& one = detections_[i];
      image_of[i] = image_places_.place_of(one.image_id);
      if (image_of[i] == IdPlaces::kNone) fail_foreign_images();
      if (labels.place_of(one.category_id) == IdPlaces::kNone) image_of[i] = IdPlaces::kNone;
      low += one.score <= 0 ? 1 : 0;
      high += one.score > 1 ? 1 : 0;
      empty += is_empty(one.bbox) ? 1 : 0;
    }
    low_scores += low;
    high_scores += high;
    empty_boxes += empty;
  });
  low_score_count_ = low_scores;
  high_score_count_ = high_scores;
  empty_box_count_ = empty_boxes;
  group_boxes(image_of, image_count(), thread_count, found_begin, entry);
}

void BoxGroups::sort_images(const IdPlaces& labels, int thread_count) {
  label.resize(entry.size());
  score.resize(entry.size());
  constexpr std::size_t kBlock = 64;
  for_each_parallel((image_count() + kBlock - 1) / kBlock, thread_count, [&](std::size_t b) {
    std::vector<Ranked> ranked;
    for (std::size_t i = b * kBlock; i < std::min(image_count(), (b + 1) * kBlock); ++i) {
      ranked.clear();
      for (std::uint32_t slot = found_begin[i]; slot < found_begin[i + 1]; ++slot) {
        ranked.push_back({detection(slot).score, entry[slot]});
      }
      sort_ranked(ranked);
      std::uint32_t slot = found_begin[i];
      for (const Ranked& one : ranked) {
        entry[slot] = one.order;
        score[slot] = one.score;
        label[slot] = labels.place_of(detection(slot).category_id);
        ++slot;
      }
    }
  });
}

void BoxGroups::sort_classes(int thread_count) {
  class_begin_.assign(class_count_ + std::size_t{1}, 0);
  for (const std::uint32_t one : label) ++class_begin_[one + std::size_t{1}];
  std::partial_sum(class_begin_.begin(), class_begin_.end(), class_begin_.begin());
  by_class_.resize(label.size());
  std::vector<std::uint32_t> next(class_begin_.begin(), class_begin_.end() - 1);
  for (std::uint32_t slot = 0; slot < label.size(); ++slot) by_class_[next[label[slot]]++] = slot;

  for_each_parallel(class_count_, thread_count, [&](std::size_t one) {
    std::vector<Ranked> ranked;
    ranked.reserve(of_class(one).size());
    for (const std::uint32_t slot : of_class(one)) ranked.push_back({score[slot], slot});
    sort_ranked(ranked);
    std::transform(ranked.begin(), ranked.end(), by_class_.begin() + class_begin_[one],
                   [](const Ranked& box) { return box.order; });
  });
}

std::uint32_t BoxGroups::image_of(std::uint32_t slot) const {
  const auto next = std::upper_bound(found_begin.begin(), found_begin.end(), slot);
  return static_cast<std::uint32_t>(next - found_begin.begin() - 1);
}

void BoxGroups::fail_foreign_images() const {
  constexpr std::size_t kNamed = 5;
  const auto is_foreign = [&](const Detection& one) {
    return image_places_.place_of(one.image_id) == IdPlaces::kNone;
  };
  const auto first = std::find_if(detections_.begin(), detections_.end(), is_foreign);
  std::set<std::int64_t> foreign;
  for (const Detection& one : detections_) {
    if (is_foreign(one) && one.image_id != first->image_id) foreign.insert(one.image_id);
  }
  std::string others;
  std::size_t named = 0;
  for (const std::int64_t other : foreign) {
    if (++named > kNamed) break;
    others += cat(named == 1 ? "; nor are " : ", ", other);
  }
  if (foreign.size() > kNamed) others += cat(" and ", foreign.size() - kNamed, " more");
  throw Error(
      ErrorKind::kData,
      cat("detections: entry ", first - detections_.begin(), ": image id ", first->image_id,
          " is not in the annotations (they have ", counted(image_count(), "image"), others, ")"),
      "score detections against the annotations of the images they were made on");
}

}  // namespace retina
