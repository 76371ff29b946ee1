#include "preprocess/formats/image_names.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>
#include <utility>

#include "preprocess/formats/annotation_files.h"
#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/log.h"
#include "shared/base/parallel.h"
#include "shared/base/printable.h"
#include "shared/data/listed_folder.h"
#include "shared/image/jpeg.h"
#include "shared/image/orientation.h"

namespace retina {

std::string lower_suffix(const std::string& name) {
  return lower_case(std::filesystem::path(name).extension().string());
}

bool is_jpeg_name(const std::string& name) {
  static const std::set<std::string> kSuffixes{".jpg", ".jpeg", ".jpe", ".jfif", ".jif"};
  return kSuffixes.contains(lower_suffix(name));
}

bool is_image_name(const std::string& name) {
  static const std::set<std::string> kSuffixes{".png", ".webp", ".bmp", ".tif", ".tiff"};
  return is_jpeg_name(name) || kSuffixes.contains(lower_suffix(name));
}

bool is_split_name(const std::string& folder) {
  static const std::set<std::string> kNames{"train",      "training", "val",    "valid",
                                            "validation", "test",     "testing"};
  return kNames.contains(lower_case(folder));
}

std::vector<std::string> files_below(const std::string& folder, const std::string& suffix) {
  FolderListing listing = list_files(folder, "");
  if (!listing.skipped.empty()) {
    const SkippedFile& first = listing.skipped.front();
    throw Error(ErrorKind::kNoInput,
                cat(folder, "/", escaped(first.name), ": ", first.problem.reason));
  }
  if (!suffix.empty()) {
    std::erase_if(listing.names, [&](const auto& name) { return lower_suffix(name) != suffix; });
  }
  return std::move(listing.names);
}

std::vector<std::string> images_of(std::vector<std::string> names) {
  std::erase_if(names, [](const std::string& name) { return !is_image_name(name); });
  return names;
}

ImageNames::ImageNames(std::vector<std::string> images) : images_(std::move(images)) {
  for (std::size_t i = 0; i < images_.size(); ++i) {
    const std::string stem = std::filesystem::path(images_[i]).replace_extension().string();
    const auto [place, is_new] = by_stem_.emplace(stem, i);
    if (!is_new) place->second = images_.size();  // "a" may be a.jpg or a.png
  }
}

const std::string* ImageNames::find(const std::string& name) const {
  const auto same = std::lower_bound(images_.begin(), images_.end(), name);
  if (same != images_.end() && *same == name) return &*same;
  const auto stem = by_stem_.find(name);
  return stem != by_stem_.end() && stem->second < images_.size() ? &images_[stem->second] : nullptr;
}

std::string NameCompleter::completed(const std::string& name) {
  if (is_image_name(name)) return name;
  if (!listed_) listed_.emplace(files_below(folder_));
  const std::string* const whole = listed_->find(name);
  return whole != nullptr ? *whole : name;
}

namespace {

void warn_of_turned(const AnnotationSource& source, const Instances& instances,
                    const std::vector<char>& is_turned) {
  std::set<std::int64_t> with_boxes;
  for (const Annotation& one : instances.annotations) with_boxes.insert(one.image_id);
  std::vector<std::string> turned;
  for (std::size_t i = 0; i < is_turned.size(); ++i) {
    const ImageInfo& image = instances.images[i];
    if (is_turned[i] != 0 && with_boxes.contains(image.id)) turned.push_back(image.file_name);
  }
  if (turned.empty()) return;
  log_warning(source.images, ": ",
              counted(turned.size(), "image with boxes is", "images with boxes are"),
              " stored rotated (EXIF; ", first_names(turned), ") and packed as stored. The ",
              "annotations do not say whether boxes refer to the stored or the upright image; if ",
              "upright, as most tools display it, ",
              source.by_rows ? "turn these images upright before they are packed with --tile"
                             : "give --exif apply");
}

}  // namespace

void read_image_sizes(const AnnotationSource& source, Instances& instances) {
  constexpr auto kNoLimit = std::numeric_limits<std::uint64_t>::max();
  const ImageFolder folder(source.images, source.by_rows ? kNoLimit : kMaxImageFileBytes);
  std::vector<char> is_turned(instances.images.size());
  constexpr std::size_t kBlock = 16;
  const std::size_t block_count = (instances.images.size() + kBlock - 1) / kBlock;
  for_each_parallel(block_count, source.thread_count, [&](std::size_t block) {
    JpegDecoder decoder(source.by_rows ? kNoLimit : kDefaultMaxPixels);
    const std::size_t end = std::min(instances.images.size(), (block + 1) * kBlock);
    for (std::size_t i = block * kBlock; i < end; ++i) {
      ImageInfo& image = instances.images[i];
      if (image.width > 0) continue;
      const LookedAt seen = look_at(folder, image.file_name, decoder);
      if (seen.problem) continue;
      image.width = seen.image.width;
      image.height = seen.image.height;
      is_turned[i] = seen.image.orientation != 1 ? 1 : 0;
      if (source.exif == ExifPolicy::kApply && is_turned_sideways(seen.image.orientation)) {
        std::swap(image.width, image.height);
      }
    }
  });
  if (source.exif == ExifPolicy::kIgnore) warn_of_turned(source, instances, is_turned);
}

void scale_shares(Instances& instances) {
  for (Annotation& one : instances.annotations) {
    const ImageInfo& image = instances.images.at(static_cast<std::size_t>(one.image_id) - 1);
    for (const std::size_t i : {0, 2}) {
      one.bbox[i] *= image.width;
      one.bbox[i + 1] *= image.height;
    }
    one.area = one.bbox[2] * one.bbox[3];
  }
}

}  // namespace retina
