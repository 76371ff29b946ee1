#include "preprocess/options.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <regex>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/exact_number.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/host.h"
#include "shared/base/image_folder.h"
#include "shared/base/printable.h"
#include "shared/base/text_encoding.h"
#include "shared/image/stretch.h"

namespace retina {
namespace {

constexpr int kDefaultQuality = 90;
constexpr std::uint64_t kMinShardBytes = 64 << 10, kMaxShardBytes = std::uint64_t{1} << 40;

void refuse_if(bool is_wrong, const std::string& problem, const std::string& hint = "") {
  if (is_wrong) throw Error(ErrorKind::kUsage, problem, hint);
}

void require(const std::string& value, const char* name) {
  refuse_if(value.empty(), cat("--", name, " is missing"), "run coco-pack --help");
}

void validate_tiles(const PackOptions& options) {
  if (!options.tile_px) return;
  refuse_if(task_of(options.format) == Task::kClassification,
            "--tile: has no effect with a --format of classification",
            "a class is one of the whole image");
  refuse_if(options.max_side_px.has_value(), "give either --tile or --max-side, not both",
            "tiles keep every pixel");
  refuse_if(options.exif != ExifPolicy::kIgnore, "--exif: has no effect with --tile",
            "tiles are cut from images as they are stored; turn them upright before");
}

}  // namespace

std::string SplitSide::text() const {
  return cat(folder(), " ", shortest(train_share));
}

double SplitSide::place_of(const std::string& group) {
  return std::ldexp(static_cast<double>(xxh3(group) >> 11), -53);
}

std::string PackPart::text() const {
  return cat(number, "/", count);
}

void PackOptions::validate() const {
  // What to pack, and where to.
  const bool is_cifar10 = format == AnnotationFormat::kCifar10;
  if (!is_cifar10 && format != AnnotationFormat::kFolders) require(annotations, "annotations");
  require(images, "images");
  require(output, "output");
  const bool takes_classes =
      format != AnnotationFormat::kCoco && format != AnnotationFormat::kYolo && !is_cifar10;
  refuse_if(!classes.empty() && !takes_classes, "--classes: has no effect with this --format",
            "the annotations of COCO list their classes, YOLO's list of classes is its "
            "--annotations, CIFAR-10 has its own");

  // Values.
  refuse_if(
      shard_size_bytes < kMinShardBytes || shard_size_bytes > kMaxShardBytes,
      cat("--shard-size: out of range (got ", shard_size_bytes, " bytes, want 64KiB..1024GiB)"));
  try {
    const std::regex pattern(split_by);
  } catch (const std::regex_error&) {
    refuse_if(true,
              cat("--split-by: got ", escaped(split_by), ", want folder or a regular expression"));
  }

  validate_tiles(*this);

  // Parts.
  refuse_if(parts > 0 && !part.empty(), "give either --part or --parts, not both",
            "--parts N packs all N parts and merges them");
  refuse_if(
      !part.empty() && !part_of(),
      cat("--part: got ", escaped(part), ", want K/N with 1 <= K <= N <= ", kMaxParts, ", as 3/8"));

  // Options that need others.
  const bool is_raw = encoding == ImageEncoding::kRaw;
  const char* const kOriginals = "without them the original JPEG bytes are kept";
  refuse_if(quality && !encodes(),
            "--quality: has no effect without --max-side, --convert, --exif apply or --tile",
            kOriginals);
  refuse_if(is_raw && !encodes() && !is_cifar10,
            "--encoding raw: has no effect without --max-side, --convert, --exif apply or --tile",
            kOriginals);
  refuse_if(!stretch.empty() && !parse_stretch(stretch),
            cat("--stretch: got ", escaped(stretch),
                ", want two percentiles LOW,HIGH with 0 <= LOW < HIGH <= 100, as 2,98"));
  refuse_if(is_raw && quality, "--quality: has no effect with --encoding raw",
            "raw images lose nothing");
}

std::optional<TileRule> PackOptions::tile_rule() const {
  if (!tile_px) return std::nullopt;
  TileRule rule{.side_px = *tile_px};
  rule.overlap = tile_overlap.value_or(rule.overlap);
  rule.visibility = tile_visibility.value_or(rule.visibility);
  const bool is_validation = side && !side->is_train;
  if (!is_validation) rule.empty = tile_empty.value_or(rule.empty);
  return rule;
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
    set.side = SplitSide{.train_share = *split, .is_train = i == 0};
    set.output = output + "/" + set.side->folder();
  }
  return both;
}

std::optional<PackPart> PackOptions::part_of() const {
  const auto pair = exact_pair<std::size_t>(part, '/');
  if (!pair || pair->first < 1 || pair->first > pair->second || pair->second > kMaxParts) {
    return std::nullopt;
  }
  return PackPart{.number = pair->first, .count = pair->second};
}

ImageSource PackOptions::image_source() const {
  ImageSource source{.folder = images_folder(), .format = format};
  if (tile_px) source.max_file_bytes = std::numeric_limits<std::uint64_t>::max();
  return source;
}

AnnotationSource PackOptions::annotation_source() const {
  return {.format = format,
          .path = annotations,
          .classes = classes,
          .images = images,
          .exif = exif,
          .by_rows = tile_px.has_value(),
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
          .stretch = stretch,
          .part = !side ? "" : cat(side->text(), split_by.empty() ? "" : " by ", split_by),
          .tile = tile_rule()};
}

void InspectOptions::validate() const {
  const std::string drawn = lower_case(draw);
  refuse_if(!drawn.empty() && !drawn.ends_with(".jpg") && !drawn.ends_with(".jpeg"),
            cat("--draw ", draw, ": a JPEG is drawn (want OUT.jpg)"));
  refuse_if(!draw.empty() && !shows_image(), "--draw: needs --image", "name the image to draw");
}

}  // namespace retina
