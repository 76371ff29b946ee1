// The parts of the networks' ONNX graphs, one function for each stage. They compute the same as
// shared/model.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "shared/anchor/anchor.h"
#include "shared/model/config.h"
#include "shared/onnx/graph.h"

namespace retina {

// [out, in] of a dense layer, [out, in, k, k] of a convolution.
using LayerShape = std::vector<std::int64_t>;

// A convolution's or dense layer's numbers: weight of its shape, bias [out].
struct LayerArrays {
  Array weight{}, bias{};
};

// Provides a trained network's numbers under torchvision's names, in the shapes that the graph
// wants.
class NetworkArrays {
 public:
  virtual ~NetworkArrays() = default;
  // Returns `prefix`.weight and `prefix`.bias.
  virtual LayerArrays layer(const std::string& prefix, const LayerShape& shape) const = 0;
  // Returns the bias-free convolution `conv` with the batch norm `norm` folded in.
  virtual LayerArrays folded(const std::string& conv, const std::string& norm,
                             const LayerShape& shape) const = 0;
  // Returns `prefix`.weight, and zeros for the bias, which a norm after it makes unnecessary.
  virtual LayerArrays without_bias(const std::string& prefix, const LayerShape& shape) const = 0;
  // Returns `name` [count].
  virtual Array row(const std::string& name, std::int64_t count) const = 0;
};

// Sizes that the graph's stages use, each i64: known if the images' size is.
struct ImageSizes {
  Ints count;    // [1] N
  Ints image;    // [2] H, W
  Ints resized;  // [2] without padding
  Ints padded;   // [2] with it, multiples of 32
};

struct NetworkInput {
  Value pixels;  // f32 [N, 3, padded], normalised
  ImageSizes sizes;
};

// Writes `images` u8 [N, 3, H, W] -> the detector's input: resized_size (shared/image/resize.h) and
// zeros to the right and below. `count`: N; `image`: H, W.
NetworkInput detector_input(OnnxGraph& graph, const Value& images, const Ints& count,
                            const Ints& image, const ModelConfig& config);
// Writes `images` -> f32 [N, 3, S, S]: the middle square (middle_square, shared/image/frame.h).
Value square_input(OnnxGraph& graph, const Value& images, const Ints& image,
                   const ModelConfig& config);

// Writes pixels -> C3, C4, C5, batch norm folded in. `prefix` begins the names of the body's
// tensors.
std::array<Value, 3> body(OnnxGraph& graph, const ModelConfig& config, const NetworkArrays& arrays,
                          const std::string& prefix, const Value& pixels);
// Writes C3, C4, C5 -> P3, ..., P7.
std::array<Value, kLevelCount> pyramid(OnnxGraph& graph, const ModelConfig& config,
                                       const NetworkArrays& arrays,
                                       const std::array<Value, 3>& features);

// Outputs of the heads' last convolutions: logits [N, 9 K, h, w], deltas [N, 36, h, w] of each
// level.
struct HeadValues {
  std::array<Value, kLevelCount> logits, deltas;
};
HeadValues heads(OnnxGraph& graph, const ModelConfig& config, const NetworkArrays& arrays,
                 const std::array<Value, kLevelCount>& levels);

// Writes a classifier after its input: pixels -> logits [N, K].
Value classifier_logits(OnnxGraph& graph, const ModelConfig& config, const NetworkArrays& arrays,
                        const Value& pixels);

// A detector's answer, in pixels of the images; padded with zeros to D detections.
struct DetectionValues {
  Value boxes;   // f32 [N, D, 4] xyxy
  Value scores;  // f32 [N, D], descending
  Value labels;  // i64 [N, D], dense
  Value counts;  // i64 [N]
};
// Writes shared/model/postprocess.cpp: the best of each level, decoding, suppression inside each
// class.
DetectionValues detections(OnnxGraph& graph, const ModelConfig& config,
                           const PostprocessOptions& options, const HeadValues& heads,
                           const ImageSizes& sizes);

// Box and scores of every anchor, for runtimes that suppress by themselves.
struct AnchorValues {
  Value boxes;   // f32 [N, A, 4] xyxy, pixels of the images
  Value scores;  // f32 [N, A, K]
};
AnchorValues all_anchors(OnnxGraph& graph, const ModelConfig& config, const HeadValues& heads,
                         const ImageSizes& sizes);

}  // namespace retina
