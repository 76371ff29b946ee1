#include "preprocess/record_maker.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "shared/base/printable.h"
#include "shared/image/image_file.h"
#include "shared/image/orientation.h"
#include "shared/image/resize.h"
#include "shared/image/row_reader.h"

namespace retina {
namespace {

// Pixel buffers beyond this are given back after the image.
constexpr std::size_t kKeptPixelBytes = std::size_t{64} << 20;
constexpr int kMaxJpegSidePx = 65500;  // libjpeg's limit

}  // namespace

RecordMaker::RecordMaker(const ManifestOptions& options, const ImageSource& images)
    : options_(options), images_(images) {
  if (options_.tile) tiles_.emplace(options, images);
}

void RecordMaker::make(const PlannedImage& planned, std::size_t first_tile, const PutRecord& put) {
  if (!tiles_) return put(make_whole(planned));
  const auto problem = unless_too_large([&]() -> std::optional<FileProblem> {
    tiles_->make(planned, first_tile, put);
    return std::nullopt;
  });
  if (!problem) return;  // else some of its tiles may be in a shard
  throw Error(ErrorKind::kUnavailable, cat(escaped(planned.file_name), ": ", problem->reason),
              "choose a smaller --tile or fewer --threads");
}

std::optional<QuarantinedImage> RecordMaker::fault_of(const PlannedImage& planned) {
  return tiles_ ? tiles_->fault_of(planned) : make_whole(planned).bad;
}

std::string RecordMaker::encode(const Image& image, ChromaSize chroma, Record& record) const {
  record.encoding = options_.encoding;
  if (record.encoding == ImageEncoding::kRaw) return {image.rgb.begin(), image.rgb.end()};
  return encode_jpeg(image, options_.quality, chroma);
}

// Boxes and areas follow the image, so that training and scoring on the stored pixels agree.
std::string RecordMaker::shrink_image(Record& record) {
  const double scale =
      static_cast<double>(options_.max_side_px) / std::max(record.width, record.height);
  const auto shrunk = [&](int side) {
    return std::max(1, static_cast<int>(std::lround(side * scale)));
  };
  const ImageSize to{.width = shrunk(record.width), .height = shrunk(record.height)};
  const double scale_x = static_cast<double>(to.width) / record.width;
  const double scale_y = static_cast<double>(to.height) / record.height;
  for (RecordAnnotation& annotation : record.annotations) {
    annotation.bbox[0] *= scale_x;
    annotation.bbox[1] *= scale_y;
    annotation.bbox[2] *= scale_x;
    annotation.bbox[3] *= scale_y;
    annotation.area *= scale_x * scale_y;
  }
  record.width = to.width;
  record.height = to.height;
  record.rescaled = true;
  return encode(shrink(pixels_, to), ChromaSize::kHalf, record);
}

std::optional<FileProblem> RecordMaker::check_image(std::string& file, Record& record) {
  const std::string format = image_format(file);
  const int orientation = options_.exif == ExifPolicy::kIgnore ? 1 : exif_orientation(file);
  if (orientation != 1 && options_.exif == ExifPolicy::kError) {
    return FileProblem{.kind = "exif",
                       .reason = cat("is stored rotated (EXIF orientation ", orientation, ")")};
  }
  const bool is_converted = options_.convert && format != "JPEG" && is_image_format(format);
  return is_converted ? convert(file, orientation, record) : check_jpeg(file, orientation, record);
}

std::optional<FileProblem> RecordMaker::check_jpeg(std::string& file, int orientation,
                                                   Record& record) {
  const bool has_pixels = orientation != 1 || options_.max_side_px > 0;
  // An image whose end marker is not where it belongs may have been cut: only decoding tells.
  const bool is_read_whole = options_.check == ImageCheck::kFull || !file.ends_with("\xFF\xD9");
  const DecodeStatus status = has_pixels ? decoder_.decode(file, pixels_)
                              : is_read_whole
                                  ? decoder_.check(file, record.width, record.height)
                                  : decoder_.check_header(file, record.width, record.height);
  const std::string problem = unusable_reason(status, policy_on_foreign_files(status));
  if (!problem.empty()) {
    const std::string format = image_format(file);
    const bool other_format = !format.empty() && format != "JPEG";
    return FileProblem{.kind = other_format ? "format" : "damaged",
                       .reason = problem,
                       .hint = other_format && is_image_format(format) ? kConvertHint : ""};
  }
  if (!has_pixels) return std::nullopt;
  if (orientation != 1) {
    pixels_ = upright(pixels_, orientation);
    file = encode(pixels_, ChromaSize::kHalf, record);
    record.converted = true;
  }
  record.width = pixels_.width;
  record.height = pixels_.height;
  return std::nullopt;
}

std::optional<FileProblem> RecordMaker::convert(std::string& file, int orientation,
                                                Record& record) {
  const std::optional<Stretch> stretch = parse_stretch(options_.stretch);
  const DecodeStatus status = stretch ? decode_stretched(file, *stretch, pixels_)
                                      : decode_any_image(file, decoder_, pixels_);
  const std::string problem = unusable_reason(status, policy_on_foreign_files(status));
  if (!problem.empty()) {
    return FileProblem{.kind = status.unsupported ? "format" : "damaged",
                       .reason = problem,
                       .hint = hint_of_unsupported(status, stretch.has_value(), ImageBytes(file))};
  }
  if (options_.encoding == ImageEncoding::kJpeg &&
      std::max(pixels_.width, pixels_.height) > kMaxJpegSidePx) {
    return FileProblem{.kind = "too-large",
                       .reason = cat("a JPEG has at most ", kMaxJpegSidePx, " pixels a side")};
  }
  if (orientation != 1) pixels_ = upright(pixels_, orientation);
  // The colours of other formats have the full resolution, and edges of graphics keep theirs.
  file = encode(pixels_, ChromaSize::kFull, record);
  record.converted = true;
  record.width = pixels_.width;
  record.height = pixels_.height;
  return std::nullopt;
}

MadeRecord RecordMaker::make_whole(const PlannedImage& planned) {
  MadeRecord made;
  const auto problem = unless_too_large([&] { return make_into(made, planned); });
  if (pixels_.rgb.capacity() > kKeptPixelBytes) pixels_ = Image();
  return problem ? bad_image(planned, *problem) : std::move(made);
}

std::optional<FileProblem> RecordMaker::make_into(MadeRecord& made, const PlannedImage& planned) {
  SourceImage source;
  if (auto problem = images_.read(planned.file_name, source)) return problem;
  made.record = {.image_id = planned.id,
                 .file_name = planned.file_name,
                 .annotations = {planned.annotations.begin(), planned.annotations.end()},
                 .label = planned.label};
  made.found_as = source.found_as;

  // Is it an image that can be packed, and of the size that the annotations state?
  std::string& file = source.bytes;
  const bool is_turned = !source.raw_size && is_turned_sideways(exif_orientation(file));
  if (source.raw_size) {
    made.record.width = source.raw_size->width;
    made.record.height = source.raw_size->height;
    made.record.encoding = ImageEncoding::kRaw;
  } else if (auto problem = check_image(file, made.record)) {
    return problem;
  }
  const Record& record = made.record;
  const std::optional<ImageSize>& stated = planned.stated_size;
  if (stated && (record.width != stated->width || record.height != stated->height)) {
    return other_size({.width = record.width, .height = record.height}, *stated, is_turned,
                      options_.exif == ExifPolicy::kApply);
  }

  // What to store: the file's own bytes, unless the image was made here.
  const int max_side_px = options_.max_side_px;
  if (max_side_px > 0 && std::max(record.width, record.height) > max_side_px) {
    file = shrink_image(made.record);
  }
  made.image_xxh3 = xxh3(file);
  encode_made(made, file);
  return std::nullopt;
}

}  // namespace retina
