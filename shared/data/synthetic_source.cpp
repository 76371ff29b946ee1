// Images for measuring speed: right in shape and in the number of boxes, meaningless in content.
#include <algorithm>
#include <variant>

#include "shared/base/error.h"
#include "shared/data/sample_source.h"
#include "shared/numeric/random.h"

namespace retina {
namespace {

constexpr std::size_t kNoiseCount = 1 << 16;
constexpr float kGrey = 114, kContrast = 58;  // about the mean and deviation of photographs, u8
constexpr std::uint64_t kMostBoxes = 14;      // COCO's mean is 7.7 an image (Lin et al. 2014)

}  // namespace

SyntheticSource::SyntheticSource(std::int64_t image_count, int class_count, std::uint64_t seed,
                                 ImageSize size, Task task)
    : task_(task),
      class_count_(class_count),
      seed_(seed),
      noise_(kNoiseCount),
      bytes_(kNoiseCount) {
  RETINA_CHECK(image_count > 0 && class_count > 0);
  RETINA_CHECK(std::min(size.width, size.height) >= 1);
  RETINA_CHECK(std::max(size.width, size.height) <= kMostSidePx);
  const RandomStream random{.seed = seed, .use = RandomUse::kSynthetic};
  for (std::size_t i = 0; i < noise_.size(); ++i) {
    noise_[i] = static_cast<float>(random.normal(i));
    bytes_[i] = static_cast<std::uint8_t>(std::clamp(kGrey + kContrast * noise_[i], 0.0F, 255.0F));
  }
  for (std::int64_t i = 0; i < image_count; ++i) {
    const bool upright = random.below(kNoiseCount + static_cast<std::uint64_t>(i), 4) == 0;
    index_.push_back({.image_id = i + 1,
                      .width = upright ? size.height : size.width,
                      .height = upright ? size.width : size.height});
  }
}

Sample SyntheticSource::load(const BatchRequest& request, std::size_t place, JpegDecoder&,
                             PixelTarget pixels) const {
  const Slot& slot = request.slots[place];
  const IndexEntry entry = index_[slot.record];
  const ImageSize size = framed_size({entry.width, entry.height}, request.frame);
  Sample sample{.slot = slot,
                .image_id = entry.image_id,
                .original_width_px = entry.width,
                .original_height_px = entry.height,
                .width_px = size.width,
                .height_px = size.height};
  const RandomStream random{.seed = seed_,
                            .use = RandomUse::kSynthetic,
                            .stream = static_cast<std::uint32_t>(slot.record + 1)};
  if (std::uint8_t* const* stored = std::get_if<std::uint8_t*>(&pixels)) {
    const auto row_bytes = static_cast<std::size_t>(3 * entry.width);
    for (int y = 0; y < entry.height; ++y) {
      const std::size_t from = random.below(static_cast<std::uint64_t>(y), kNoiseCount - row_bytes);
      std::copy_n(bytes_.data() + from, row_bytes,
                  *stored + static_cast<std::size_t>(y) * row_bytes);
    }
  } else {
    const auto row_floats = static_cast<std::size_t>(size.width);
    for (int row = 0; row < 3 * size.height; ++row) {
      const int plane = row / size.height, y = row % size.height;
      float* target =
          std::get<float*>(pixels) +
          (static_cast<std::ptrdiff_t>(plane) * request.padded.height + y) * request.padded.width;
      const std::size_t from =
          random.below(static_cast<std::uint64_t>(row), kNoiseCount - row_floats);
      std::copy_n(noise_.data() + from, row_floats, target);
    }
  }
  // Labels and boxes are the same in both forms.
  auto draw = static_cast<std::uint64_t>(3 * size.height);
  if (task_ == Task::kClassification) {
    sample.labels.push_back(
        static_cast<std::int64_t>(random.below(draw, static_cast<std::uint64_t>(class_count_))));
    return sample;
  }
  const std::uint64_t box_count = 1 + random.below(draw++, kMostBoxes);
  for (std::uint64_t i = 0; i < box_count; ++i) {
    const double width = size.width * (0.05 + 0.4 * random.unit(draw++));
    const double height = size.height * (0.05 + 0.4 * random.unit(draw++));
    const double x = (size.width - width) * random.unit(draw++);
    const double y = (size.height - height) * random.unit(draw++);
    sample.boxes.push_back({static_cast<float>(x), static_cast<float>(y),
                            static_cast<float>(x + width), static_cast<float>(y + height)});
    sample.labels.push_back(
        static_cast<std::int64_t>(random.below(draw++, static_cast<std::uint64_t>(class_count_))));
  }
  return sample;
}

}  // namespace retina
