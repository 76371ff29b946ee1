#include "convert/verification/verification_images.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>

#include "shared/data/evaluation_plan.h"
#include "shared/data/record_image.h"
#include "shared/data/sample_source.h"
#include "shared/numeric/random.h"
#include "shared/shard/shard_set.h"

namespace retina {
namespace {

struct Shape {
  int width, height;
};
// Wide, tall, odd-sized and square; small and enlarged, large and shrunk.
constexpr std::array<Shape, 6> kShapes = {
    {{640, 480}, {333, 500}, {97, 131}, {256, 256}, {1400, 600}, {720, 1280}}};
constexpr int kBoxCount = 12;
constexpr std::uint64_t kSeed = 20170807;  // the day of "Focal loss for dense object detection"

// Fills `image` with a gradient, noise and boxes from one random stream.
void draw(Image& image, const RandomStream& random) {
  std::uint64_t place = 0;
  const auto below = [&](int bound) {
    return static_cast<int>(random.below(place++, static_cast<std::uint64_t>(bound)));
  };
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      std::uint8_t* const pixel = image.pixel(x, y);
      pixel[0] = static_cast<std::uint8_t>(x * 200 / image.width + below(30));
      pixel[1] = static_cast<std::uint8_t>(y * 200 / image.height + below(30));
      pixel[2] = static_cast<std::uint8_t>(100 + below(30));
    }
  }
  for (int box = 0; box < kBoxCount; ++box) {
    const int left = below(image.width), top = below(image.height);
    const int right = std::min(image.width, left + 1 + below(image.width / 2));
    const int bottom = std::min(image.height, top + 1 + below(image.height / 2));
    const std::array<int, 3> colour = {below(256), below(256), below(256)};
    for (int y = top; y < bottom; ++y) {
      for (int x = left; x < right; ++x) {
        for (std::size_t c = 0; c < 3; ++c) {
          image.pixel(x, y)[c] = static_cast<std::uint8_t>(colour[c]);
        }
      }
    }
  }
}

// Returns `image` in this size: cut off to the right and below, or with black there.
Image cut_to(const Image& image, PixelSize size) {
  Image result(size.width, size.height);
  const int height = std::min(size.height, image.height), width = std::min(size.width, image.width);
  for (int y = 0; y < height; ++y) {
    std::copy_n(&image.rgb[static_cast<std::size_t>(y) * static_cast<std::size_t>(image.width) * 3],
                width * 3, result.pixel(0, y));
  }
  return result;
}

}  // namespace

std::vector<Image> generated_images(int count) {
  std::vector<Image> images;
  for (int i = 0; i < count; ++i) {
    const Shape& shape = kShapes[static_cast<std::size_t>(i) % kShapes.size()];
    images.emplace_back(shape.width, shape.height);
    draw(images.back(),
         {.seed = kSeed, .use = RandomUse::kSynthetic, .stream = static_cast<std::uint32_t>(i)});
  }
  return images;
}

std::vector<Image> shard_images(const std::string& shards, int count) {
  const ShardSet set(shards);
  const std::size_t total = set.index().size();
  const std::size_t wanted = std::min(total, static_cast<std::size_t>(count));
  std::vector<Image> images(wanted);
  JpegDecoder decoder;
  for (std::size_t i = 0; i < wanted; ++i) {
    decode_image(set.read(i * total / wanted), shards, decoder, images[i]);
  }
  return images;
}

std::vector<Image> fitted(std::vector<Image> images, const std::optional<PixelSize>& size) {
  if (!size) return images;
  for (Image& image : images) image = cut_to(image, *size);
  return images;
}

at::Tensor planes_of(const Image& image) {
  return at::from_blob(const_cast<std::uint8_t*>(image.rgb.data()), {image.height, image.width, 3},
                       at::kByte)
      .permute({2, 0, 1})
      .unsqueeze(0)
      .contiguous();
}

NetworkInputPixels network_input(const Image& image, const ModelConfig& config) {
  const IndexEntry entry{.width = image.width, .height = image.height};
  const BatchRequest request = plan_evaluation({entry}, {.frame = config.frame()}).front();
  const Sample sample = sized_sample(request, 0, {.width = image.width, .height = image.height});
  const PixelSize padded{.height = request.padded.height, .width = request.padded.width};
  at::Tensor pixels = at::zeros({1, 3, padded.height, padded.width}, at::kFloat);
  put_pixels(image, request, sample, config.normalisation(), pixels.mutable_data_ptr<float>());
  return {.pixels = pixels,
          .size = {.height = sample.height_px, .width = sample.width_px},
          .padded = padded};
}

}  // namespace retina
