#include "preprocess/record_maker.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/image/resize.h"

namespace retina {
namespace {

namespace fs = std::filesystem;

// A photograph is a thousand times smaller; more would only fill the memory.
constexpr std::uint64_t kMaxFileBytes = std::uint64_t{512} << 20;
// Pixel buffers beyond this are given back after the image.
constexpr std::size_t kKeptPixelBytes = std::size_t{64} << 20;

QuarantinedImage bad_image(const PlannedImage& planned, const char* kind,
                           const std::string& reason) {
  return {.image_id = planned.info.id,
          .file_name = planned.info.file_name,
          .kind = kind,
          .reason = reason};
}

// A truncated picture is refused: part of it would be made up. One without any pixel data was made
// so (UltraHDR files whose main picture was taken out); every viewer shows it flat, and so do we.
bool is_good(const DecodeStatus& status) {
  return usable(status, status.is_blank ? TruncatedPolicy::kKeep : TruncatedPolicy::kRefuse);
}

}  // namespace

RecordMaker::RecordMaker(RecordMakerOptions options)
    : options_(std::move(options)), folder_(options_.images_folder) {}

std::optional<QuarantinedImage> RecordMaker::read_image(const PlannedImage& planned,
                                                        const std::string& path,
                                                        std::string& jpeg) const {
  std::error_code code;
  const fs::file_status status = fs::status(path, code);
  if (!fs::is_regular_file(status)) {  // a pipe or device would block forever
    folder_.check_present();
    if (code && !means_no_file(code.value())) throw read_error(path, code.value());
    return bad_image(planned, "missing",
                     fs::exists(status) ? "is not a regular file" : "does not exist");
  }
  const std::uintmax_t size_bytes = fs::file_size(path, code);
  if (!code && size_bytes > kMaxFileBytes) {
    return bad_image(planned, "too-large",
                     cat("the file has ", size_bytes, " bytes (the limit is ", kMaxFileBytes, ")"));
  }
  jpeg = read_file(path);
  return std::nullopt;
}

// Boxes and areas follow the image, so that training and scoring on the stored pixels agree.
std::string RecordMaker::shrink_image(Record& record) {
  const double scale =
      static_cast<double>(options_.pack.max_side_px) / std::max(record.width, record.height);
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
  return encode_jpeg(shrink(pixels_, to), options_.pack.quality);
}

MadeRecord RecordMaker::make(const PlannedImage& planned) {
  const std::optional<std::string> path = folder_.path_of(planned.info.file_name);
  if (!path) {
    return {.bad = bad_image(planned, "name", "the file name leads out of the image folder")};
  }
  // Asked before the file is read: a change meanwhile shows.
  const std::int64_t time_ns = modified_ns(*path);
  std::string jpeg;
  if (auto bad = read_image(planned, *path, jpeg)) return {.bad = std::move(bad)};
  const DecodeStatus status = decoder_.decode(jpeg.data(), jpeg.size(), pixels_);
  if (!is_good(status)) {
    const std::string format = image_format(jpeg.data(), jpeg.size());
    const bool other_format = !format.empty() && format != "JPEG";
    return {.bad = bad_image(planned, other_format ? "format" : "damaged",
                             unusable_reason(status, TruncatedPolicy::kRefuse))};
  }
  if (pixels_.width != planned.info.width || pixels_.height != planned.info.height) {
    return {.bad = bad_image(
                planned, "size",
                cat("the picture is ", pixels_.width, "x", pixels_.height, ", the annotations say ",
                    planned.info.width, "x", planned.info.height))};
  }
  MadeRecord made{.record = {.image_id = planned.info.id,
                             .width = pixels_.width,
                             .height = pixels_.height,
                             .annotations = planned.annotations}};
  made.source = source_file(jpeg, time_ns);
  const int max_side_px = options_.pack.max_side_px;
  if (max_side_px > 0 && std::max(pixels_.width, pixels_.height) > max_side_px) {
    jpeg = shrink_image(made.record);
  }
  made.record.jpeg = jpeg;
  made.bytes = encode_record(made.record);
  made.record.jpeg = {};
  if (pixels_.rgb.capacity() > kKeptPixelBytes) pixels_ = Image();
  return made;
}

}  // namespace retina
