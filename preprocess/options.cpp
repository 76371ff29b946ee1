#include "preprocess/options.h"

#include <cmath>
#include <filesystem>

#include "shared/base/cores.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/text_encoding.h"

namespace retina {
namespace {

constexpr int kDefaultQuality = 90;
constexpr int kMaxThreads = 1024;
constexpr std::uint64_t kMinShardBytes = 64 << 10, kMaxShardBytes = std::uint64_t{1} << 40;

void require(const std::string& value, const char* name) {
  if (value.empty()) {
    throw Error(ErrorKind::kUsage, cat("--", name, " is missing"), "run coco-pack --help");
  }
}

void check_range(const char* name, std::int64_t got, std::int64_t low, std::int64_t high) {
  if (got >= low && got <= high) return;
  throw Error(ErrorKind::kUsage,
              cat("--", name, ": out of range (got ", got, ", want ", low, "..", high, ")"));
}

// Its images are pixels, and small: there is nothing to decode, to check or to make smaller.
void refuse_without_effect_on_cifar10(const PackOptions& options) {
  const auto refuse = [](bool is_given, const char* name) {
    if (!is_given) return;
    throw Error(ErrorKind::kUsage, cat("--", name, ": has no effect with --format cifar10"),
                "its pixels are kept as they are");
  };
  refuse(!options.annotations.empty(), "annotations");
  refuse(options.convert, "convert");
  refuse(options.exif != ExifPolicy::kIgnore, "exif");
  refuse(options.max_side_px.has_value(), "max-side");
  refuse(options.quality.has_value(), "quality");
  refuse(options.check != ImageCheck::kFull, "check");
}

}  // namespace

std::string SplitPart::text() const {
  return cat(folder(), " ", shortest(train_share));
}

bool SplitPart::holds(const std::string& file_name) const {
  return (std::ldexp(static_cast<double>(xxh3(file_name) >> 11), -53) < train_share) == is_train;
}

void PackOptions::validate() const {
  const bool is_cifar10 = format == AnnotationFormat::kCifar10;
  if (!is_cifar10 && format != AnnotationFormat::kFolders) require(annotations, "annotations");
  require(images, "images");
  require(output, "output");
  const bool takes_classes = format == AnnotationFormat::kCsv || format == AnnotationFormat::kVoc ||
                             format == AnnotationFormat::kFolders;
  if (!classes.empty() && !takes_classes) {
    throw Error(ErrorKind::kUsage, "--classes: has no effect with this --format",
                "the annotations of COCO list their classes, YOLO's list of classes is its "
                "--annotations, CIFAR-10 has its own");
  }
  if (is_cifar10) refuse_without_effect_on_cifar10(*this);
  check_range("threads", threads, 0, kMaxThreads);
  if (shard_size_bytes < kMinShardBytes || shard_size_bytes > kMaxShardBytes) {
    throw Error(ErrorKind::kUsage, cat("--shard-size: out of range (got ", shard_size_bytes,
                                       " bytes, want 64KiB..1024GiB)"));
  }
  if (max_side_px) check_range("max-side", *max_side_px, 1, 65500);
  if (quality) check_range("quality", *quality, 1, 100);
  if (quality && !encodes()) {
    throw Error(ErrorKind::kUsage,
                "--quality: has no effect without --max-side, --convert or --exif apply",
                "without them the original JPEG bytes are kept");
  }
  const bool raw = encoding == ImageEncoding::kRaw;
  if (raw && !encodes() && !is_cifar10) {
    throw Error(ErrorKind::kUsage,
                "--encoding raw: has no effect without --max-side, --convert or --exif apply",
                "without them the original JPEG bytes are kept");
  }
  if (raw && quality) {
    throw Error(ErrorKind::kUsage, "--quality: has no effect with --encoding raw",
                "raw images lose nothing");
  }
  if (split && !(*split > 0 && *split < 1)) {
    throw Error(ErrorKind::kUsage, cat("--split: out of range (got ", shortest(*split),
                                       ", want a number between 0 and 1, e.g. 0.9)"));
  }
}

int PackOptions::thread_count() const {
  if (threads > 0) return threads;
  return usable_cores();
}

std::vector<PackOptions> PackOptions::sets() const {
  if (!split) return {*this};
  std::vector<PackOptions> both(2, *this);
  for (std::size_t i = 0; i < both.size(); ++i) {
    PackOptions& set = both[i];
    set.part = SplitPart{.train_share = *split, .is_train = i == 0};
    set.output = output + "/" + set.part->folder();
  }
  return both;
}

AnnotationSource PackOptions::annotation_source() const {
  return {.format = format,
          .path = annotations,
          .classes = classes,
          .images = images,
          .exif = exif,
          .convert = convert,
          .thread_count = thread_count()};
}

std::string PackOptions::images_folder() const {
  if (format != AnnotationFormat::kCifar10 || is_folder(images)) return images;
  const std::string folder = std::filesystem::path(images).parent_path().string();
  return folder.empty() ? "." : folder;
}

ManifestOptions PackOptions::manifest_options() const {
  return {.shard_size_bytes = shard_size_bytes,
          .max_side_px = max_side_px.value_or(0),
          .quality =
              encodes() && encoding == ImageEncoding::kJpeg ? quality.value_or(kDefaultQuality) : 0,
          .encoding = format == AnnotationFormat::kCifar10 ? ImageEncoding::kRaw : encoding,
          .convert = convert,
          .exif = exif,
          .check = check,
          .part = part ? part->text() : ""};
}

void InspectOptions::validate() const {
  const bool has_suboption = shows_image() || !draw.empty() || !export_annotations.empty();
  if (folder.empty() && has_suboption) {
    throw Error(ErrorKind::kUsage,
                "--image-id, --image-file, --draw and --export-annotations need --inspect SHARDS");
  }
  if (image_id && !image_file.empty()) {
    throw Error(ErrorKind::kUsage, "--image-id or --image-file: not both");
  }
  const std::string drawn = lower_case(draw);
  if (!drawn.empty() && !drawn.ends_with(".jpg") && !drawn.ends_with(".jpeg")) {
    throw Error(ErrorKind::kUsage, cat("--draw ", draw, ": a JPEG is drawn (want OUT.jpg)"));
  }
  if (!draw.empty() && !shows_image()) {
    throw Error(ErrorKind::kUsage, "--draw: needs --image-file or --image-id",
                "name the image to draw");
  }
}

}  // namespace retina
