#include "preprocess/image_check.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <unordered_map>
#include <vector>

#include "preprocess/ordered_work.h"
#include "preprocess/record_maker.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/printable.h"

namespace retina {
namespace {

// The plan is shuffled: the first images are a fair sample, and all of them lie in few shards.
constexpr std::size_t kSampledImages = 32;

std::string path_of(const PackOptions& options, const PlannedImage& image) {
  return options.images + "/" + image.info.file_name;
}

RecordMaker maker_of(const PackOptions& options) {
  return RecordMaker({.images_folder = options.images, .pack = options.manifest_options()});
}

// Whether the file can be read and is not the picture of the record.
bool is_another_picture(const std::string& path, const Record& record) {
  std::error_code code;
  if (record.rescaled || !std::filesystem::is_regular_file(path, code)) return false;
  try {
    return file_size_bytes(path) != record.jpeg.size() || read_file(path) != record.jpeg;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNoInput) throw;
    return false;
  }
}

}  // namespace

std::optional<ChangedImage> changed_image(const PackOptions& options, const PackPlan& plan,
                                          std::size_t first_image, const FinishedShard& shard) {
  std::unordered_map<std::int64_t, const QuarantinedImage*> left_out;
  for (const QuarantinedImage& bad : shard.quarantined) left_out[bad.image_id] = &bad;
  std::vector<const PlannedImage*> packed, bad;
  for (std::size_t i = first_image; i < std::min(shard.next_image, plan.images.size()); ++i) {
    const PlannedImage& image = plan.images[i];
    (left_out.count(image.info.id) == 0 ? packed : bad).push_back(&image);
  }
  // A note of a coco-pack that did not take the files down: nothing is known of its images.
  if (packed.size() != shard.sources.size()) return ChangedImage{};
  OrderedWork<bool> same({.count = packed.size(), .thread_count = options.thread_count()},
                         [&](int, std::size_t i) {
                           return is_same_file(path_of(options, *packed[i]), shard.sources[i]);
                         });
  for (const PlannedImage* image : packed) {
    if (!same.take()) return ChangedImage{.file_name = image->info.file_name, .was_packed = true};
  }
  RecordMaker maker = maker_of(options);
  for (const PlannedImage* image : bad) {
    if (maker.make(*image).bad != *left_out[image->info.id]) {
      return ChangedImage{.file_name = image->info.file_name};
    }
  }
  return std::nullopt;
}

std::string changed_images(const PackOptions& options, const PackPlan& plan, const ShardSet& set) {
  std::unordered_map<std::int64_t, const PlannedImage*> image_of;
  for (const PlannedImage& image : plan.images) image_of[image.info.id] = &image;
  for (std::size_t i = 0; i < std::min(kSampledImages, set.index().size()); ++i) {
    const PlannedImage& image = *image_of.at(set.index()[i].image_id);
    if (is_another_picture(path_of(options, image), set.read(i))) {
      return cat("images (", escaped(image.info.file_name), " is another picture now)");
    }
  }
  const std::string path = set.folder() + "/" + set.manifest().quarantine.name;
  RecordMaker maker = maker_of(options);
  std::size_t usable_count = 0;
  std::string first;
  for (const QuarantinedImage& bad : decode_quarantine(read_file(path), path)) {
    if (maker.make(*image_of.at(bad.image_id)).bad) continue;
    if (usable_count++ == 0) first = bad.file_name;
  }
  if (usable_count == 0) return "";
  return cat("images (", usable_count, " that ", usable_count == 1 ? "was" : "were",
             " left out can be used now: ", escaped(first), usable_count == 1 ? ")" : ", ...)");
}

}  // namespace retina
