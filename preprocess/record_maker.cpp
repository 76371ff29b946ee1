#include "preprocess/record_maker.h"

#include <algorithm>
#include <cmath>

#include "shared/image/format.h"
#include "shared/image/resize.h"

namespace retina {
namespace {

// Pixel buffers beyond this are given back after the image.
constexpr std::size_t kKeptPixelBytes = std::size_t{64} << 20;

QuarantinedImage bad_image(const PlannedImage& planned, const std::string& kind,
                           const std::string& reason) {
  return {.image_id = planned.info.id,
          .file_name = planned.info.file_name,
          .kind = kind,
          .reason = reason};
}

}  // namespace

RecordMaker::RecordMaker(RecordMakerOptions options)
    : options_(std::move(options)), folder_(options_.images_folder) {}

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
  if (const auto problem = folder_.read(*path, jpeg)) {
    return {.bad = bad_image(planned, problem->kind, problem->reason)};
  }
  const DecodeStatus status = decoder_.decode(jpeg.data(), jpeg.size(), pixels_);
  const std::string problem = unusable_reason(status, policy_on_foreign_files(status));
  if (!problem.empty()) {
    const std::string format = image_format(jpeg);
    const bool other_format = !format.empty() && format != "JPEG";
    return {.bad = bad_image(planned, other_format ? "format" : "damaged", problem)};
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
