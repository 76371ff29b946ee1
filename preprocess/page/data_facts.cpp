#include "preprocess/page/data_facts.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <set>

#include "shared/base/cat.h"
#include "shared/base/hash.h"
#include "shared/base/printable.h"
#include "shared/image/resize.h"

namespace retina {
namespace {

// Samples wait in memory; a larger file is not shown.
constexpr std::size_t kMaxSampleBytes = std::size_t{8} << 20;
// Times that images are larger than the network sees them: less is not worth the tiles, more costs
// most small objects.
constexpr double kLargeTimes = 1.5, kVeryLargeTimes = 3;
constexpr float kSmallAreaPx = 32 * 32;  // COCO's limit of small objects

// Hashes the classes and boxes: all that training sees of an image beside its pixels.
std::uint64_t hash_of_truth(const Record& record) {
  Hasher hasher;
  if (record.label) hasher.update(&*record.label, sizeof(*record.label));
  for (const RecordAnnotation& annotation : record.annotations) {
    hasher.update(annotation.bbox.data(), sizeof(annotation.bbox));
    hasher.update(&annotation.label, sizeof(annotation.label));
    hasher.update(&annotation.iscrowd, sizeof(annotation.iscrowd));
  }
  return hasher.digest();
}

}  // namespace

void DataFacts::add(const Record& record, std::uint64_t image_xxh3) {
  const double scale =
      resized_size(record.width, record.height, kDefaultMinSidePx, kDefaultMaxSidePx).scale;
  ImageFacts image{.image_id = record.image_id,
                   .image_xxh3 = image_xxh3,
                   .truth_xxh3 = hash_of_truth(record),
                   .width = record.width,
                   .height = record.height,
                   .is_empty_tile = record.tile && record.annotations.empty()};
  std::set<int> labels;
  if (record.label) labels.insert(*record.label);
  for (const RecordAnnotation& annotation : record.annotations) {
    if (!is_trainable(annotation, record.width, record.height)) continue;
    const double width = annotation.bbox[2], height = annotation.bbox[3];
    const double area = annotation.area > 0 ? annotation.area : width * height;
    boxes_.push_back({.side_px = static_cast<float>(std::sqrt(area)), .label = annotation.label});
    box_sizes_.push_back({.width_px = static_cast<float>(width * scale),
                          .height_px = static_cast<float>(height * scale)});
    labels.insert(annotation.label);
    ++image.box_count;
  }
  for (const int label : labels) {
    const auto place = static_cast<std::size_t>(label);
    if (place < images_of_class_.size()) ++images_of_class_[place];
  }
  if (record.tile) follow_objects(record);
  images_.push_back(image);
  if (image.box_count > 0 || record.label) offer_sample(record);
}

void DataFacts::follow_objects(const Record& record) {
  if (record.whole_annotations) {
    lost_ = lost_objects();
    partial_so_far_.clear();
    for (const RecordAnnotation& whole : *record.whole_annotations) {
      if (is_trainable(whole, record.tile->image_width, record.tile->image_height)) {
        partial_so_far_.emplace(whole.id, whole);
      }
    }
  }
  for (const RecordAnnotation& annotation : record.annotations) {
    if (!annotation.is_partial) partial_so_far_.erase(annotation.id);
  }
}

DataFacts::LostObjects DataFacts::lost_objects() const {
  LostObjects lost = lost_;
  const auto area = [](const std::array<double, 4>& box) { return box[2] * box[3]; };
  for (const auto& [id, annotation] : partial_so_far_) {
    ++lost.of_label[annotation.label];
    if (area(annotation.bbox) > area(lost.largest)) lost.largest = annotation.bbox;
  }
  return lost;
}

void DataFacts::offer_sample(const Record& record) {
  if (record.image.size() > kMaxSampleBytes) return;
  const std::uint64_t hash =
      record.tile ? xxh3(cat(record.image_id, "+", record.tile->x, "+", record.tile->y))
                  : xxh3(&record.image_id, sizeof(record.image_id));
  const std::pair key(hash, record.image_id);
  if (samples_.size() == kSampleCount) {
    const auto last = std::prev(samples_.end());
    if (!(key < last->first)) return;
    samples_.erase(last);
  }
  samples_.emplace(key, SampleImage{.image_id = record.image_id,
                                    .width = record.width,
                                    .height = record.height,
                                    .tile = record.tile,
                                    .encoding = record.encoding,
                                    .image = std::string(record.image),
                                    .annotations = record.annotations,
                                    .label = record.label});
}

std::vector<const SampleImage*> DataFacts::samples() const {
  std::vector<const SampleImage*> images;
  for (const auto& [key, image] : samples_) images.push_back(&image);
  return images;
}

std::vector<std::vector<std::size_t>> DataFacts::identical_images() const {
  std::vector<std::size_t> order(images_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::erase_if(order, [&](std::size_t place) { return images_[place].is_empty_tile; });
  const auto key = [&](std::size_t place) { return std::pair(images_[place].image_xxh3, place); };
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() &&
           images_[order[end]].image_xxh3 == images_[order[begin]].image_xxh3) {
      ++end;
    }
    if (end - begin > 1) {
      groups.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(begin),
                          order.begin() + static_cast<std::ptrdiff_t>(end));
    }
  }
  std::sort(groups.begin(), groups.end());
  return groups;
}

std::string size_of_boxes_text(const Manifest& manifest) {
  if (!manifest.options.tile) {
    return cat("images at ", kDefaultMinSidePx, "/", kDefaultMaxSidePx, " px");
  }
  const int side_px = manifest.options.tile->side_px;
  if (side_px == kDefaultMinSidePx) return cat("tiles of ", side_px, " px as they are");
  return cat("tiles of ", side_px, " px ", side_px < kDefaultMinSidePx ? "enlarged" : "shrunk",
             " to ", kDefaultMinSidePx, " px");
}

std::string lost_in_tiles(const DataFacts& facts, const Categories& categories) {
  const auto [of_label, largest] = facts.lost_objects();
  if (of_label.empty()) return "";
  constexpr std::size_t kNamed = 5;
  std::int64_t all = 0;
  std::size_t named = 0;
  std::string names;
  for (const auto& [label, count] : of_label) {
    all += count;
    if (named++ >= kNamed) continue;
    names += cat(names.empty() ? "" : ", ",
                 escaped(categories.at(static_cast<std::size_t>(label)).name), " ", count);
  }
  return cat(counted(all, "box is", "boxes are"), " partial in every tile, so nothing learns ",
             all == 1 ? "it (" : "them (", names, named > kNamed ? ", ..." : "", "; the largest ",
             shortest(std::round(largest[2])), "x", shortest(std::round(largest[3])),
             " px): a larger --tile or more overlap shows more of ", all == 1 ? "it" : "them");
}

std::string tile_advice(const DataFacts& facts, const Manifest& manifest,
                        const Uncovered& uncovered) {
  const std::vector<ImageFacts>& images = facts.images();
  const std::vector<BoxSize>& boxes = facts.box_sizes();
  if (manifest.options.tile || images.empty() || boxes.empty()) return "";
  std::vector<double> times;
  for (const ImageFacts& one : images) {
    times.push_back(
        1 / resized_size(one.width, one.height, kDefaultMinSidePx, kDefaultMaxSidePx).scale);
  }
  const auto middle = times.begin() + std::ssize(times) / 2;
  std::nth_element(times.begin(), middle, times.end());
  const auto small = std::count_if(boxes.begin(), boxes.end(), [](const BoxSize& box) {
    return box.width_px * box.height_px < kSmallAreaPx;
  });
  const bool loses_boxes =
      static_cast<double>(uncovered.small) >= kReportedShare * static_cast<double>(boxes.size());
  const bool is_worth_it = (*middle >= kLargeTimes && loses_boxes) ||
                           (*middle > kVeryLargeTimes && 2 * small > std::ssize(boxes));
  if (!is_worth_it) return "";
  return cat("images are ", fixed(*middle, 1), " times as large as the network sees them (",
             kDefaultMinSidePx, " px): pack them with --tile ", kDefaultMinSidePx);
}

}  // namespace retina
