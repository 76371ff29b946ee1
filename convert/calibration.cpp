#include "convert/calibration.h"

#include <algorithm>

#include "convert/verification/verification_images.h"
#include "shared/base/error.h"
#include "shared/base/host.h"
#include "shared/onnx/onnx_session.h"

namespace retina {
ValueRanges ranges_on(const OnnxModel& model, const std::vector<Image>& images,
                      const std::string& subject) {
  const std::unique_ptr<OnnxSession> session =
      open_onnx_session(model.bytes, subject, usable_cores(), model.rounded_values);
  const auto share = 1 / static_cast<float>(images.size());
  ValueRanges ranges;
  for (const Image& image : images) {
    const at::Tensor planes = planes_of(image);
    const std::vector<OnnxOutput> outputs =
        session->run({.pixels = planes.const_data_ptr<std::uint8_t>(),
                      .count = 1,
                      .height = image.height,
                      .width = image.width});
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
