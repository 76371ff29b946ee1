// One record becomes one sample: decode, flip, resize, normalise; boxes follow the pixels.
#include <array>

#include "shared/base/error.h"
#include "shared/data/record_picture.h"
#include "shared/data/sample_source.h"

namespace retina {
namespace {

// xyxy inside the stored image -> of the resized (and mirrored) one, in torchvision's order of f32
// operations: mirror, scale per axis.
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

}  // namespace

Sample ShardSource::load(const BatchRequest& request, std::size_t place, JpegDecoder& decoder,
                         float* pixels) const {
  const Slot& slot = request.slots[place];
  const Record record = shards_.read(slot.record);
  Image image;
  decode_picture(record, shards_.folder(), decoder, image);
  const ResizedSize size =
      resized_size(image.width, image.height, request.min_side_px, request.max_side_px);
  RETINA_CHECK(size.width <= request.padded_width_px && size.height <= request.padded_height_px);
  Sample sample{.slot = slot,
                .image_id = record.image_id,
                .original_width_px = record.width,
                .original_height_px = record.height,
                .width_px = size.width,
                .height_px = size.height};
  resize_normalise(image,
                   {.width = size.width,
                    .height = size.height,
                    .row_stride = request.padded_width_px,
                    .plane_stride = static_cast<std::int64_t>(request.padded_width_px) *
                                    request.padded_height_px,
                    .flip = slot.flip},
                   normalisation_, pixels);
  for (const RecordAnnotation& annotation : record.annotations) {
    if (annotation.iscrowd) continue;
    if (const auto box = training_box(annotation, record.width, record.height)) {
      sample.boxes.push_back(to_resized(*box, sample));
      sample.labels.push_back(annotation.label);
    } else {
      sample.left_out.push_back(annotation.id);
    }
  }
  return sample;
}

}  // namespace retina
