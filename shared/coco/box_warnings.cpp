#include "shared/coco/box_warnings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>

#include "shared/base/cat.h"
#include "shared/base/file_spelling.h"
#include "shared/base/hash.h"
#include "shared/base/printable.h"

namespace retina {
namespace {

// Place of a box for messages: ground truth has its annotation's id, a detection its place in the
// file.
struct BoxPlace {
  const ImageInfo* image = nullptr;
  std::string box{};
};

std::string text_of(const BoxPlace& place) {
  return cat(image_name(place.image->id, place.image->file_name), ", ", place.box);
}

class BoxReadings {
 public:
  template <class Describe>
  void add(const ImageInfo* image, const std::array<double, 4>& bbox, const Describe& describe) {
    const auto [x, y, width, height] = bbox;
    if (image == nullptr || image->width < 1 || !(width > 0) || !(height > 0)) return;
    const double right = image->width, bottom = image->height;
    const double slack_x = slack(right), slack_y = slack(bottom);
    count_ += 1;
    corners_ +=
        x >= -1 && y >= -1 && x < width && y < height && width <= right + 1 && height <= bottom + 1;
    shares_ += x >= 0 && y >= 0 && std::max({x, y, width, height}) <= 1 && right > 2 && bottom > 2;
    if (x >= -slack_x && y >= -slack_y && x + width <= right + slack_x &&
        y + height <= bottom + slack_y) {
      return;
    }
    beyond_ += 1;
    if (!first_beyond_) first_beyond_ = BoxPlace{.image = image, .box = describe()};
    const double inside_x = std::min(x + width, right) - std::max(x, 0.0),
                 inside_y = std::min(y + height, bottom) - std::max(y, 0.0);
    if (std::max(inside_x, 0.0) * std::max(inside_y, 0.0) >= width * height / 2) return;
    outside_ += 1;
    if (!first_outside_) first_outside_ = BoxPlace{.image = image, .box = describe()};
  }

  std::string warning(bool may_guess = true) const {
    if (count_ == 0) return "";
    if (may_guess && shares_ == count_) {
      return cat(count_ == 1 ? "the only box lies" : cat("all ", count_, " boxes lie"),
                 " within one pixel, as shares of the image's sides do; want pixels");
    }
    if (beyond_ == 0) return "";
    const std::string of_all = cat(beyond_, " of ", count_, count_ == 1 ? " box" : " boxes",
                                   beyond_ == 1 ? " reaches" : " reach", " beyond ",
                                   beyond_ == 1 ? "its" : "their", " image");
    if (may_guess && are_corners()) {
      return cat(of_all,
                 ", but the boxes fit as corners x1, y1, x2, y2 (first: ", text_of(*first_beyond_),
                 "); want x, y, width, height: convert them");
    }
    if (outside_ == 0) return cat(of_all, " (first: ", text_of(*first_beyond_), ")");
    return cat(of_all, ", ", outside_,
               " wholly or mostly outside it (first: ", text_of(*first_outside_), ")");
  }

 private:
  static double slack(double side) { return std::max(1.0, side / 100); }

  // Returns true if boxes read better as corners. As x, y, width, height they stay inside their
  // image, and few are wider than their distance from its edge: neither a few careless boxes nor a
  // set of large ones looks like corners.
  bool are_corners() const {
    constexpr std::int64_t kFewest = 3;
    return beyond_ >= kFewest && beyond_ * 4 >= count_ && corners_ * 100 >= count_ * 99;
  }

  std::int64_t count_ = 0, corners_ = 0, shares_ = 0, beyond_ = 0, outside_ = 0;
  std::optional<BoxPlace> first_beyond_{}, first_outside_{};
};

class ImagesById {
 public:
  explicit ImagesById(const std::vector<ImageInfo>& images) {
    image_of_.reserve(images.size());
    for (const ImageInfo& image : images) image_of_.emplace(image.id, &image);
  }

  // Returns the image of this id; remembers the last one, since boxes of an image mostly follow
  // each other.
  const ImageInfo* image_with(std::int64_t id) {
    if (last_ == nullptr || last_->id != id) {
      const auto found = image_of_.find(id);
      last_ = found == image_of_.end() ? nullptr : found->second;
    }
    return last_;
  }

 private:
  std::unordered_map<std::int64_t, const ImageInfo*> image_of_;
  const ImageInfo* last_ = nullptr;
};

// Finds which of `count` things repeat an earlier one by its hash: how many do, and the first that
// does, with the earlier one. Sorts hashes first: there may be tens of millions.
struct Repeats {
  std::ptrdiff_t count = 0;
  std::size_t earlier = 0, first = 0;
};

Repeats find_repeats(std::size_t count, const std::function<std::uint64_t(std::size_t)>& hash_of) {
  std::vector<std::uint64_t> hashes;
  hashes.reserve(count);
  for (std::size_t i = 0; i < count; ++i) hashes.push_back(hash_of(i));
  std::sort(hashes.begin(), hashes.end());
  Repeats found{.count = hashes.end() - std::unique(hashes.begin(), hashes.end())};
  std::unordered_map<std::uint64_t, std::size_t> known;
  for (std::size_t i = 0; found.count > 0; ++i) {
    const auto [before, is_new] = known.emplace(hash_of(i), i);
    if (is_new) continue;
    found.earlier = before->second;
    found.first = i;
    break;
  }
  return found;
}

}  // namespace

std::string box_format_warning(const std::vector<ImageInfo>& images, const AnnotationList& truth) {
  BoxReadings readings;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const Annotation one = truth.at(i);
    readings.add(&images[truth.image(i)], one.bbox, [&] { return cat("annotation ", one.id); });
  }
  return readings.warning();
}

std::string duplicate_box_warning(const std::vector<ImageInfo>& images,
                                  const AnnotationList& truth) {
  // Rounds to hundredths of a pixel: fractions of the image in six digits move boxes by less. No
  // usual fraction, such as .125, is a border of these.
  const auto rounded = [](double side) { return std::floor(100 * side + 0.3); };
  const auto [count, earlier, first] = find_repeats(truth.size(), [&](std::size_t i) {
    const Annotation one = truth.at(i);
    const bool may_repeat = one.iscrowd || !(one.bbox[2] > 0) || !(one.bbox[3] > 0);
    const double parts[] = {static_cast<double>(truth.image(i)),
                            may_repeat ? static_cast<double>(i) : -1,
                            static_cast<double>(one.category_id),
                            rounded(one.bbox[0]),
                            rounded(one.bbox[1]),
                            rounded(one.bbox[2]),
                            rounded(one.bbox[3])};
    return xxh3(parts, sizeof parts);
  });
  if (count == 0) return "";
  return cat(
      counted(count, "box repeats", "boxes repeat"),
      " another one of the same image and class (first: ",
      text_of({.image = &images[truth.image(first)],
               .box = cat("annotations ", truth.at(earlier).id, " and ", truth.at(first).id)}),
      "): a detection finds one of the two, and the other counts as missed; remove ",
      count == 1 ? "it" : "them");
}

std::string area_warning(const std::vector<ImageInfo>& images, const AnnotationList& truth) {
  std::int64_t count = 0;
  std::string first;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const Annotation one = truth.at(i);
    const double width = one.bbox[2], height = one.bbox[3];
    // An outline may extend a pixel beyond its box, and be rounded.
    const bool is_possible = one.area > 0 && one.area <= 1.01 * (width + 1) * (height + 1);
    if (one.iscrowd || !(width > 0) || !(height > 0) || is_possible) continue;
    if (count++ > 0) continue;
    first = text_of({.image = &images[truth.image(i)],
                     .box = cat("annotation ", one.id, ": ", shortest(one.area), " for ",
                                shortest(width), " x ", shortest(height), " px")});
  }
  if (count == 0) return "";
  return cat(counted(count, "area is", "areas are"),
             " impossible, 0 or more than the box has (first: ", first,
             "): AP of small, medium and large objects sorts them by it; correct ",
             count == 1 ? "it" : "them", " or leave \"area\" out");
}

std::vector<std::string> box_notes(const std::vector<ImageInfo>& images,
                                   const AnnotationList& truth) {
  std::vector<std::string> notes{box_format_warning(images, truth),
                                 duplicate_box_warning(images, truth), area_warning(images, truth)};
  std::erase(notes, "");
  return notes;
}

std::vector<std::string> box_notes(const Instances& truth) {
  ImagesById images(truth.images);
  std::vector<Annotation> all;
  AnnotationVector list(all);
  for (const Annotation& one : truth.annotations) {
    list.add(one, static_cast<std::size_t>(images.image_with(one.image_id) - truth.images.data()));
  }
  return box_notes(truth.images, list);
}

std::string boxes_outside_warning(const Instances& truth,
                                  const std::vector<Detection>& detections) {
  ImagesById images(truth.images);
  BoxReadings readings;
  for (const Detection& one : detections) {
    readings.add(images.image_with(one.image_id), one.bbox,
                 [&] { return cat("entry ", &one - detections.data()); });
  }
  return readings.warning(false);
}

std::string annotation_0_warning(const std::vector<ImageInfo>& images,
                                 const AnnotationList& truth) {
  std::size_t i = 0;
  while (i < truth.size() && truth.at(i).id != 0) ++i;
  if (i == truth.size()) return "";
  return cat("annotation id 0 (image ", images[truth.image(i)].id,
             "): COCO's evaluation, pycocotools' and so retina-eval's, takes 0 for \"no match\" "
             "and never counts this box as found; number annotations from 1");
}

std::string shared_files(const std::vector<ImageInfo>& images) {
  const auto [count, first, second] = find_repeats(images.size(), [&](std::size_t i) {
    std::string name = plain_spelling(images[i].file_name);
    while (name.starts_with("./")) name.erase(0, 2);
    return xxh3(name.empty() ? cat("/", i) : name);
  });
  if (count == 0) return "";
  return cat(counted(count, "image"), count == 1 ? " has" : " have", " the file of another image (",
             escaped(images[second].file_name), ": ", images[first].id, " and ", images[second].id,
             "): each is trained on with its own boxes alone, the others' count as background");
}

std::string rotated_boxes(const Instances& truth) {
  if (truth.rotated_count == 0) return "";
  const bool is_one = truth.rotated_count == 1;
  return cat(counted(truth.rotated_count, "annotation"), is_one ? " has" : " have",
             " a \"rotation\" that is not 0, but rotated boxes cannot be trained on: ",
             is_one ? "it is" : "they are", " taken as upright; export upright boxes or outlines");
}

}  // namespace retina
