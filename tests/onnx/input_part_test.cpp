// What a model makes of an image before its network, by the build's runtime: the loader's pixels.
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>

#include "shared/data/evaluation_plan.h"
#include "shared/data/sample_source.h"
#include "shared/image/image.h"
#include "shared/numeric/random.h"
#include "shared/onnx/onnx_session.h"
#include "shared/onnx/parts.h"
#include "tests/onnx/small_model.h"

namespace retina {
namespace {

Image noise(int width, int height) {
  Image image(width, height);
  const RandomStream random{.seed = 3, .use = RandomUse::kTest};
  for (std::size_t i = 0; i < image.rgb.size(); ++i) {
    image.rgb[i] = static_cast<std::uint8_t>(random.below(i, 256));
  }
  return image;
}

std::vector<std::uint8_t> planes_of(const Image& image) {
  std::vector<std::uint8_t> planes;
  for (std::size_t channel = 0; channel < 3; ++channel) {
    for (std::size_t i = channel; i < image.rgb.size(); i += 3) planes.push_back(image.rgb[i]);
  }
  return planes;
}

// The detector's input alone: `pixels`, and its size without padding.
std::string input_model(const ModelConfig& config, const std::optional<PixelSize>& image) {
  OnnxGraph graph(WeightType::kF32, ValueRanges());
  const Value images = graph.input("images", TensorType::kUint8, {"N", "3", "H", "W"});
  graph.enter("sizes");
  const auto sizes = [&](std::int64_t begin, std::int64_t end) {
    return graph.computed(graph.node("Shape", {images}, {{"start", begin}, {"end", end}}));
  };
  const Ints size = image ? graph.known({image->height, image->width}) : sizes(2, 4);
  const NetworkInput input = detector_input(graph, images, sizes(0, 1), size, config);
  graph.output(input.pixels, "pixels", TensorType::kFloat, {"N", "3", "h", "w"});
  return graph.finish("input", "", {}).SerializeAsString();
}

void expect_loaders_pixels(OnnxSession& session, const ModelConfig& config, const Image& image) {
  const ImageIndex index = {{.width = image.width, .height = image.height}};
  const BatchRequest request = plan_evaluation(index, {.frame = config.frame()}).front();
  const std::size_t count = 3 * static_cast<std::size_t>(request.padded.height) *
                            static_cast<std::size_t>(request.padded.width);
  std::vector<float> want(count);
  put_pixels(image, request,
             sized_sample(request, 0, {.width = image.width, .height = image.height}),
             config.normalisation(), want.data());
  const std::vector<std::uint8_t> planes = planes_of(image);
  const std::vector<OnnxOutput> got = session.run(
      {.pixels = planes.data(), .count = 1, .height = image.height, .width = image.width});
  ASSERT_EQ(got[0].shape,
            (std::vector<std::int64_t>{1, 3, request.padded.height, request.padded.width}))
      << image.width << "x" << image.height;
  const float* const pixels = static_cast<const float*>(got[0].data);
  float largest = 0;
  for (std::size_t i = 0; i < count; ++i)
    largest = std::max(largest, std::abs(pixels[i] - want[i]));
  // Values are within -2.2..2.7; a coordinate that is rounded otherwise gives 1e-4 and more.
  EXPECT_LE(largest, 3e-6F) << image.width << "x" << image.height;
}

TEST(OnnxInput, IsTheLoadersToTheLastDigitAtAnySize) {
  if (!has_onnx_runtime()) GTEST_SKIP() << "built without OpenVINO";
  ModelConfig config = detector_config();
  config.min_side_px = 320;
  config.max_side_px = 533;
  const auto session = open_onnx_session(input_model(config, {}), "m.onnx", 1);
  for (const auto& [width, height] : {std::pair{640, 480},
                                      {425, 640},
                                      {640, 432},
                                      {351, 500},
                                      {511, 640},
                                      {320, 320},
                                      {533, 320},
                                      {1, 1},
                                      {3, 7},
                                      {70, 50},
                                      {2000, 3},
                                      {1333, 800},
                                      {3000, 2001},
                                      {97, 1511},
                                      {6000, 37}}) {
    expect_loaders_pixels(*session, config, noise(width, height));
  }
  const RandomStream random{.seed = 8, .use = RandomUse::kTest};
  for (std::uint64_t trial = 0; trial < 40; ++trial) {
    expect_loaders_pixels(*session, config,
                          noise(static_cast<int>(1 + random.below(2 * trial, 900)),
                                static_cast<int>(1 + random.below(2 * trial + 1, 900))));
  }
}

TEST(OnnxInput, OfStretchedImagesIsTheLoadersToTheLastDigit) {
  if (!has_onnx_runtime()) GTEST_SKIP() << "built without OpenVINO";
  ModelConfig config = detector_config();
  config.keep_ratio = false;
  config.min_side_px = config.max_side_px = 200;  // padded to 224
  const auto session = open_onnx_session(input_model(config, {}), "m.onnx", 1);
  for (const auto& [width, height] : {std::pair{640, 480}, {200, 200}, {33, 511}, {1, 1}}) {
    expect_loaders_pixels(*session, config, noise(width, height));
  }
}

TEST(OnnxInput, OfAKnownSizeIsTheSame) {
  if (!has_onnx_runtime()) GTEST_SKIP() << "built without OpenVINO";
  const ModelConfig config = detector_config();
  for (const auto& [width, height] : {std::pair{90, 70}, {640, 427}, {64, 64}}) {
    const auto session = open_onnx_session(
        input_model(config, PixelSize{.height = height, .width = width}), "m.onnx", 1);
    expect_loaders_pixels(*session, config, noise(width, height));
  }
}

// OpenVINO divides integers as f32.
TEST(OnnxGraph, LargeIntegersAreDividedExactly) {
  if (!has_onnx_runtime()) GTEST_SKIP() << "built without OpenVINO";
  std::vector<std::int64_t> numbers, divisors;
  const RandomStream random{.seed = 4, .use = RandomUse::kTest};
  for (std::uint64_t place = 0; place < 4000; ++place) {
    divisors.push_back(static_cast<std::int64_t>(1 + random.below(2 * place, 1 << 14)));
    const auto number = static_cast<std::int64_t>(random.below(2 * place + 1, 1 << 27));
    numbers.push_back(place % 2 == 0 ? number : number / divisors.back() * divisors.back());
  }
  OnnxGraph graph(WeightType::kF32, ValueRanges());
  const Value images = graph.input("images", TensorType::kUint8, {"N", "3", "H", "W"});
  graph.enter("division");
  // Not known while the graph is written: a zero of the image is added.
  const Ints zero = graph.computed(graph.node(
      "Sub", {graph.node("Shape", {images}, {{"start", std::int64_t{0}}, {"end", std::int64_t{1}}}),
              graph.integers({1})}));
  const Ints quotient = graph.over_large(graph.plus(graph.known(numbers), zero),
                                         graph.plus(graph.known(divisors), zero));
  graph.output(graph.value_of(quotient), "quotient", TensorType::kInt64, {"n"});
  const auto session =
      open_onnx_session(graph.finish("g", "", {}).SerializeAsString(), "m.onnx", 1);
  const std::vector<std::uint8_t> pixels(3);
  const std::vector<OnnxOutput> got =
      session->run({.pixels = pixels.data(), .count = 1, .height = 1, .width = 1});
  const auto* const found = static_cast<const std::int64_t*>(got[0].data);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    ASSERT_EQ(found[i], numbers[i] / divisors[i]) << numbers[i] << " / " << divisors[i];
  }
}

}  // namespace
}  // namespace retina
