// Turns one record into one sample: decode, flip, resize or warp, normalise; boxes follow the
// pixels.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "shared/base/error.h"
#include "shared/data/record_image.h"
#include "shared/data/sample_source.h"

namespace retina {
namespace {

// Converts xyxy inside the stored image to the resized (and mirrored) one, in torchvision's order
// of f32 operations: mirror, scale per axis.
std::array<float, 4> to_resized(std::array<float, 4> box, const Sample& sample) {
  const auto width = static_cast<float>(sample.original_width_px);
  const auto height = static_cast<float>(sample.original_height_px);
  if (sample.slot.flip) {
    const float left = width - box[2];
    box[2] = width - box[0];
    box[0] = left;
  }
  const float scale_x = static_cast<float>(sample.width_px) / width;
  const float scale_y = static_cast<float>(sample.height_px) / height;
  return {box[0] * scale_x, box[1] * scale_y, box[2] * scale_x, box[3] * scale_y};
}

// Converts through the slot's warp: the hull of the corners, clipped to the image. Returns nothing
// if less than `least_visible` of its area is inside, or if the rest has no area for training
// (record.h).
std::optional<std::array<float, 4>> to_warped(const std::array<float, 4>& box, const Sample& sample,
                                              double least_visible) {
  const auto hull = warped_hull(box, *sample.slot.warp,
                                {.from = {sample.original_width_px, sample.original_height_px},
                                 .to = {sample.width_px, sample.height_px},
                                 .flip = sample.slot.flip});
  const double width = hull[2] - hull[0], height = hull[3] - hull[1];
  const auto visible =
      training_box({.bbox = {hull[0], hull[1], width, height}}, sample.width_px, sample.height_px);
  if (!visible) return std::nullopt;
  const auto& [left, top, right, bottom] = *visible;
  const double visible_area = static_cast<double>(right - left) * (bottom - top);
  if (visible_area < least_visible * width * height) return std::nullopt;
  return visible;
}

// Rows of an image that is held whole.
class WholeImageRows : public ImageRows {
 public:
  explicit WholeImageRows(Image image) : image_(std::move(image)) {}

  std::optional<FileProblem> read(int count, Image& out) override {
    out.width = image_.width;
    out.height = count;
    out.rgb.assign(image_.pixel(0, next_row_), image_.pixel(0, next_row_ + count));
    return skip(count);
  }
  std::optional<FileProblem> skip(int count) override {
    next_row_ += count;
    return std::nullopt;
  }

 private:
  Image image_;
  int next_row_ = 0;
};

}  // namespace

std::size_t stored_bytes(const IndexEntry& entry) {
  return std::size_t{3} * static_cast<std::size_t>(entry.width) *
         static_cast<std::size_t>(entry.height);
}

Sample sized_sample(const BatchRequest& request, std::size_t place, const ImageSize& size) {
  const ImageSize resized = framed_size(size, request.frame);
  RETINA_CHECK(resized.width <= request.padded.width && resized.height <= request.padded.height);
  return {.slot = request.slots[place],
          .original_width_px = size.width,
          .original_height_px = size.height,
          .width_px = resized.width,
          .height_px = resized.height};
}

void put_pixels(const Image& image, const BatchRequest& request, const Sample& sample,
                const Normalisation& normalisation, PixelTarget pixels) {
  if (std::uint8_t* const* stored = std::get_if<std::uint8_t*>(&pixels)) {
    std::copy(image.rgb.begin(), image.rgb.end(), *stored);
    return;
  }
  float* const planes = std::get<float*>(pixels);
  const ResizeTarget target{
      .width = sample.width_px,
      .height = sample.height_px,
      .row_stride = request.padded.width,
      .plane_stride = static_cast<std::int64_t>(request.padded.width) * request.padded.height,
      .flip = sample.slot.flip};
  if (sample.slot.warp) {
    warp_normalise(image, target, *sample.slot.warp, normalisation, planes);
  } else {
    resize_normalise(image, target, normalisation, planes);
  }
}

Sample ShardSource::load(const BatchRequest& request, std::size_t place, JpegDecoder& decoder,
                         PixelTarget pixels) const {
  const Slot& slot = request.slots[place];
  const Record record = shards_.read(slot.record);
  Image image;
  decode_image(record, shards_.folder(), decoder, image);
  Sample sample = sized_sample(request, place, {.width = image.width, .height = image.height});
  sample.image_id = record.image_id;
  sample.file_name = record.file_name;
  if (record.tile) {
    sample.tile = TileRect{
        .x = record.tile->x, .y = record.tile->y, .width = record.width, .height = record.height};
  }
  put_pixels(image, request, sample, normalisation_, pixels);
  if (record.label) sample.labels = {*record.label};
  for (RecordAnnotation annotation : record.annotations) {
    if (annotation.iscrowd && crowds_ == Crowds::kLeftOut) continue;
    annotation.iscrowd = false;
    const bool is_partial = std::exchange(annotation.is_partial, false);
    const auto box = training_box(annotation, record.width, record.height);
    if (!box) {
      if (!is_partial) sample.ignored.push_back(annotation.id);
      continue;
    }
    const auto seen = slot.warp ? to_warped(*box, sample, is_partial ? 0 : slot.box_visibility)
                                : to_resized(*box, sample);
    if (!seen) continue;
    if (is_partial) {
      sample.partial_boxes.push_back(*seen);
    } else {
      sample.boxes.push_back(*seen);
      sample.labels.push_back(annotation.label);
    }
  }
  return sample;
}

std::unique_ptr<ImageRows> ShardSource::open_rows(std::size_t place) const {
  JpegDecoder decoder;
  Image image;
  decode_whole(place, decoder, image);
  return std::make_unique<WholeImageRows>(std::move(image));
}

ImageSize ShardSource::whole_size(std::size_t place) const {
  return {.width = index()[place].width, .height = index()[place].height};
}

std::optional<FileProblem> ShardSource::decode_whole(std::size_t place, JpegDecoder& decoder,
                                                     Image& out) const {
  decode_image(shards_.read(place), shards_.folder(), decoder, out);
  return std::nullopt;
}

}  // namespace retina
