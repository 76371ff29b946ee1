#include "convert/calibration.h"

#include <algorithm>

#include "shared/base/cores.h"
#include "shared/base/error.h"
#include "shared/onnx/onnx_session.h"

namespace retina {
namespace {

// [3, H, W] of [H, W, 3].
std::vector<std::uint8_t> planes_of_rgb(const Image& image) {
  const std::size_t pixel_count = image.rgb.size() / 3;
  std::vector<std::uint8_t> planes(image.rgb.size());
  for (std::size_t pixel = 0; pixel < pixel_count; ++pixel) {
    for (std::size_t channel = 0; channel < 3; ++channel) {
      planes[channel * pixel_count + pixel] = image.rgb[3 * pixel + channel];
    }
  }
  return planes;
}

}  // namespace

ValueRanges ranges_on(const OnnxModel& model, const std::vector<Image>& images,
                      const std::string& subject) {
  OnnxSession session(model.bytes, subject, usable_cores(), model.rounded_values);
  const auto share = 1 / static_cast<float>(images.size());
  ValueRanges ranges;
  for (const Image& image : images) {
    const std::vector<std::uint8_t> planes = planes_of_rgb(image);
    const std::vector<OnnxOutput> outputs = session.run(
        {.pixels = planes.data(), .count = 1, .height = image.height, .width = image.width});
    RETINA_CHECK(outputs.size() > model.rounded_values.size());
    const std::size_t first = outputs.size() - model.rounded_values.size();
    for (std::size_t place = 0; place < model.rounded_values.size(); ++place) {
      const OnnxOutput& output = outputs[first + place];
      std::int64_t count = 1;
      for (const std::int64_t side : output.shape) count *= side;
      const auto* const numbers = static_cast<const float*>(output.data);
      const auto [least, largest] = std::minmax_element(numbers, numbers + count);
      ValueRange& range = ranges[model.rounded_values[place]];
      range.least += *least * share;
      range.largest += *largest * share;
    }
  }
  return ranges;
}

}  // namespace retina
