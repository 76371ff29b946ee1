// Arguments of the kernels behind the operations, raw pointers, and the launches of the CUDA
// kernels; those of CPUs are beside the operations' checks (matcher.cpp). No ATen here: nvcc reads
// this file too, as C++17. A launch queues kernels on `stream` (a cudaStream_t), does not wait, and
// returns nullptr or CUDA's error text; in a build without CUDA it throws Error{kUnavailable}.
#pragma once

#include <cstdint>

#include "shared/image/resample.h"
#include "shared/numeric/random_bits.h"
#include "shared/ops/formulas.h"
#include "shared/ops/loss_kinds.h"

namespace retina::kernels {

template <class T>
struct Match {
  const T* anchors;             // [A, 4]
  const T* boxes;               // [G, 4], of all images one after the other
  const std::int64_t* offsets;  // [N + 1]: image n has boxes offsets[n] .. offsets[n + 1] - 1
  std::int64_t image_count, anchor_count;
  T foreground_iou, background_iou;
  bool low_quality_matches;
  T* best_of_box;         // [G] scratch, zeroed
  std::int64_t* matches;  // [N, A] out
};

constexpr int kMaxLevels = 8;
// k of Zhang et al. 2020: the cells of a level whose anchors are candidates.
constexpr int kAtssCells = 9;

// A level's grid, whose cells have their anchors side by side, row by row.
struct AtssLevel {
  std::int64_t first_anchor;
  std::int32_t rows, columns;
};

template <class T>
struct Atss {
  const T* anchors;             // [A, 4]
  const T* boxes;               // [G, 4], of all images one after the other
  const std::int64_t* offsets;  // [N + 1]: image n has boxes offsets[n] .. offsets[n + 1] - 1
  std::int64_t image_count, anchor_count, box_count;
  AtssLevel levels[kMaxLevels];
  int level_count;
  std::int64_t anchors_per_cell;
  std::int32_t* cells;    // [G, level_count, kAtssCells] scratch
  double* thresholds;     // [G] scratch
  T* best;                // [N, A] scratch, zeroed
  std::int64_t* matches;  // [N, A] out, kBackground everywhere
};

template <class T>
struct IgnorePartial {
  const T* anchors;             // [A, 4]
  const T* boxes;               // [P, 4], of all images one after the other
  const std::int64_t* offsets;  // [N + 1]: image n has boxes offsets[n] .. offsets[n + 1] - 1
  const std::int64_t* claims;   // [N, A], kBackground where an anchor has none of them
  std::int64_t image_count, anchor_count;
  std::int64_t* matches;  // [N, A] in and out
};

template <class T>
struct Nms {
  const T* boxes;              // [N, M, 4], of each image by falling score
  const std::int64_t* labels;  // [N, M], negative: no box
  std::int64_t image_count, count;
  double iou_threshold;
  std::uint64_t* mask;  // CUDA only: [N, M + 1, ceil(M / 64)] scratch
  bool* keep;           // [N, M] out
};

// The outputs of a head on one level, values of an anchor side by side: [N, anchor_count, V].
template <class Stored>
struct Level {
  const Stored* values;
  Stored* gradient;  // out, or nullptr
  std::int64_t first_anchor, anchor_count;
  const Stored* deltas = nullptr;  // [N, anchor_count, 4], where DecodedBoxes are wanted

  // Returns the place of the first value of an anchor, which is counted over all levels.
  RETINA_HOST_DEVICE std::int64_t place(std::int64_t image, std::int64_t anchor,
                                        std::int64_t values_per_anchor) const {
    return (image * anchor_count + anchor - first_anchor) * values_per_anchor;
  }
  RETINA_HOST_DEVICE std::int64_t end_anchor() const { return first_anchor + anchor_count; }
};

// Arguments of both losses. `Stored` is the type of the outputs in memory, T that of the
// arithmetic.
template <class Stored, class T = Loaded<Stored>>
struct HeadLoss {
  Level<Stored> levels[kMaxLevels];
  int level_count;
  std::int64_t image_count, anchor_count;  // over all levels
  const std::int64_t* matches;             // [N, A]
  const T* weights;                        // [N], of the gradients
  double* partials;                        // [N, kPartials] scratch
  T* sums;                                 // [N] out
};

// Anchors that boxes are predicted from, and ground truth to compare them with.
template <class Stored, class T = Loaded<Stored>>
struct DecodedBoxes {
  const T* anchors;  // [A, 4]
  const T* boxes;    // [G, 4]
  T max_log_size;    // larger log sizes are decoded as this (kMaxLogSize)
};

template <class Stored, class T = Loaded<Stored>>
struct Focal {
  HeadLoss<Stored> head;
  const std::int64_t* labels;  // [G]
  std::int64_t class_count;
  T alpha, gamma;  // background terms have the weight 1 - alpha
  // Kind of the foreground terms; other kinds than kFocal need `predicted` and Level::deltas.
  ClassLossKind kind = ClassLossKind::kFocal;
  DecodedBoxes<Stored> predicted = {};
};

template <class Stored, class T = Loaded<Stored>>
struct BoxLoss {
  HeadLoss<Stored> head;
  const T* anchors;  // [A, 4]
  const T* boxes;    // [G, 4]
  BoxLossOptions options;
  double max_log_size;  // GIoU, CIoU: larger log sizes are decoded as this (kMaxLogSize)
};

enum class PixelType { kFloat, kBfloat16, kFloat16 };

struct PrepareImages {
  const std::uint8_t* block;
  const ImageRow* rows;  // [N]
  std::int64_t image_count;
  int height, width;  // padded
  ChannelStatistics statistics;
  PixelType type;
  void* out;  // [N, H, W, 3] of that type
};

struct PixelPlace {
  int x, y;
};

// Writes pixel number `pixel` of the batch, which is at `place` of the image of `row`.
RETINA_HOST_DEVICE void put_pixel(const PrepareImages& p, const ImageRow& row,
                                  const PixelPlace& place, std::int64_t pixel) {
  float rgb[3];
  batch_pixel(p.block, row, p.statistics, place.x, place.y, rgb);
  for (int c = 0; c < 3; ++c) {
    const std::int64_t element = 3 * pixel + c;
    if (p.type == PixelType::kBfloat16) {
      store(rgb[c], static_cast<Bfloat16*>(p.out) + element);
    } else if (p.type == PixelType::kFloat16) {
      store(rgb[c], static_cast<Float16*>(p.out) + element);
    } else {
      store(rgb[c], static_cast<float*>(p.out) + element);
    }
  }
}

// Dropout of values that lie image by image; dropout.h says which are kept.
template <class Stored, class T = Loaded<Stored>>
struct Dropout {
  const Stored* values;         // [N, E]
  const std::int64_t* slots;    // [N]
  std::int64_t image_count;     // N
  std::int64_t value_count;     // E, of an image: below 2^32
  std::uint32_t channel_count;  // an image in channels-last memory: C; in row-major: 1
  std::uint64_t seed;
  std::uint32_t step, layer;
  std::uint64_t threshold;  // p 2^53, rounded up: what draws 53 bits below it is dropped
  T scale;
  Stored* out;  // as `values`
};

// Writes the value at `place` of an image in memory.
template <class Stored>
RETINA_HOST_DEVICE void put_dropout(const Dropout<Stored>& d, std::int64_t image,
                                    std::uint32_t place) {
  std::uint32_t element = place;  // in row-major order
  if (d.channel_count != 1) {
    const auto pixel_count = static_cast<std::uint32_t>(d.value_count) / d.channel_count;
    element = place % d.channel_count * pixel_count + place / d.channel_count;
  }
  const std::uint64_t bits = random_bits(
      {d.seed, RandomUse::kDropout, (d.layer << 16) + static_cast<std::uint32_t>(d.slots[image]),
       (std::uint64_t{d.step} << 32) | element});
  using T = Loaded<Stored>;
  const T factor = (bits >> 11) >= d.threshold ? d.scale : T(0);
  const std::int64_t at = image * d.value_count + place;
  store(loaded(d.values[at]) * factor, d.out + at);
}

// bias_relu.h, in place.
template <class Stored, class T = Loaded<Stored>>
struct BiasRelu {
  Stored* values;
  const T* bias;                // [C], or nullptr
  const Stored* residual;       // as `values`, or nullptr
  std::int64_t count;           // values in all
  std::int64_t channel_count;   // C
  std::int64_t channel_stride;  // 1: channels-last
  bool relu;
};

// Replaces *x, a value of `channel`, by bias_relu() of it; *residual is read only where there are
// residuals.
template <class Stored>
RETINA_HOST_DEVICE void put_bias_relu(const BiasRelu<Stored>& b, std::int64_t channel,
                                      const Stored* residual, Stored* x) {
  using T = Loaded<Stored>;
  T sum = loaded(*x);
  if (b.bias != nullptr) sum = sum + b.bias[channel];
  if (b.residual != nullptr) sum = sum + loaded(*residual);
  store(b.relu && sum < T(0) ? T(0) : sum, x);
}

// Returns the rows that a block of threads takes where channels are summed over R rows
// (channel_sums.cuh): 2^17 values of up to 256 channels or, so that there is work for all of a GPU,
// down to 2^14. A function of the shape alone: the bits do not depend on the GPU.
template <class Rows>
RETINA_HOST_DEVICE std::int64_t rows_of_chunk(const Rows& of) {
  const std::int64_t share = of.row_count * of.channel_count / 1024;
  const std::int64_t most = smaller<std::int64_t>(larger<std::int64_t>(share, 1 << 14), 1 << 17);
  return (most / smaller<std::int64_t>(of.channel_count, 256) + 31) / 32 * 32;
}
// Returns the number of such chunks.
template <class Rows>
RETINA_HOST_DEVICE std::int64_t count_of_chunks(const Rows& of) {
  const std::int64_t rows = rows_of_chunk(of);
  return (of.row_count + rows - 1) / rows;
}

// The gradient of max(0, x + bias). y and what is like it lies channels-last: R = N H W
// rows of C channels.
template <class Stored, class T = Loaded<Stored>>
struct BiasReluBackward {
  const Stored* output;                   // y [R, C]
  const Stored* output_gradients;         // dy [R, C]
  std::int64_t row_count, channel_count;  // R, C
  double* partials;                       // scratch [count_of_chunks(), C]
  Stored* gradient;                       // dy' [R, C] out: dy where y > 0
  T* bias_gradient;                       // [C] out: the sums of dy'
};

// Arguments of both directions of group_norm_relu; group_norm_formulas.h has the arithmetic. x and
// what is like it, [N, P, C] of P pixels, lies channels-last. D = C / G channels a group.
template <class Stored, class T = Loaded<Stored>>
struct GroupNorm {
  const Stored* values;                                               // x [N, P, C]
  const T* weight;                                                    // [C]
  const T* bias;                                                      // [C]
  std::int64_t image_count, pixel_count, channel_count, group_count;  // N, P, C, G
  double* partials;  // scratch [N, ceil(P / group_norm_chunk_px(P)), C, 2]

  RETINA_HOST_DEVICE std::int64_t channels_per_group() const { return channel_count / group_count; }
};

template <class Stored, class T = Loaded<Stored>>
struct GroupNormForward {
  GroupNorm<Stored> norm;
  double eps;
  T* means;         // [N, G] out
  T* inverse_stds;  // [N, G] out: 1 / sqrt(var + eps)
  Stored* out;      // [N, P, C]
};

template <class Stored, class T = Loaded<Stored>>
struct GroupNormBackward {
  GroupNorm<Stored> norm;
  const T* means;                  // [N, G], of the forward pass
  const T* inverse_stds;           // [N, G]
  const Stored* output_gradients;  // dy [N, P, C]
  double* channel_sums;            // [N, C, 2] scratch: over pixels of dy' and dy' x_hat
  T* coefficients;                 // [N, G, 2] scratch
  T* weight_gradient;              // [C] out
  T* bias_gradient;                // [C] out
  Stored* gradient;                // dx [N, P, C] out
};

// Pixels that a block of threads takes. A function of the image's size alone: the bits of an image
// do not depend on its batch.
RETINA_HOST_DEVICE std::int64_t group_norm_chunk_px(std::int64_t pixel_count) {
  const std::int64_t chunk = (pixel_count / 64 + 31) / 32 * 32;  // 64 chunks, of whole 32 pixels
  return smaller<std::int64_t>(larger<std::int64_t>(chunk, 32), 128);
}

// Arguments of both directions of batch_norm_relu; batch_norm_formulas.h has the arithmetic. x and
// what is like it lies channels-last: R = N H W rows of C channels.
template <class Stored, class T = Loaded<Stored>>
struct BatchNorm {
  const Stored* values;                   // x [R, C]
  const T* weight;                        // [C]
  const T* bias;                          // [C]
  std::int64_t row_count, channel_count;  // R, C
  bool relu;
  double* partials;  // scratch [count_of_chunks(), C, 2]
};

template <class Stored, class T = Loaded<Stored>>
struct BatchNormForward {
  BatchNorm<Stored> norm;
  const Stored* residual;  // [R, C], or nullptr
  double eps, momentum;
  T* means;         // [C] out
  T* inverse_stds;  // [C] out: 1 / sqrt(var + eps)
  T* running_mean;  // [C], moved
  T* running_var;   // [C], moved
  Stored* out;      // y [R, C]
};

template <class Stored, class T = Loaded<Stored>>
struct BatchNormBackward {
  BatchNorm<Stored> norm;
  const T* means;                  // [C], of the forward pass
  const T* inverse_stds;           // [C]
  const Stored* output_gradients;  // dy [R, C]
  const Stored* output;            // y [R, C] where a ReLU is behind a residual; else nullptr
  Stored* residual_gradient;       // dy' [R, C] out, with `output`
  T* coefficients;                 // [C, 2] scratch
  T* weight_gradient;              // [C] out
  T* bias_gradient;                // [C] out
  Stored* gradient;                // dx [R, C] out, or nullptr: nobody wants it
};

// Each image's sum is made of this many parts, each over a fixed share of the anchors, added in
// order: the bits depend neither on the number of threads nor on their timing.
constexpr int kPartials = 256;

// Declares the launch of these arguments' kernels; instantiates it, of f32 and f64, and of the
// 16-bit types, too.
#define RETINA_KERNELS(Arguments) \
  template <class Stored>         \
  const char* launch_kernels(const Arguments<Stored>& arguments, void* stream);
#define RETINA_WIDE_KERNELS(Arguments)                                 \
  template const char* launch_kernels(const Arguments<float>&, void*); \
  template const char* launch_kernels(const Arguments<double>&, void*);
#define RETINA_STORED_KERNELS(Arguments)                                  \
  RETINA_WIDE_KERNELS(Arguments)                                          \
  template const char* launch_kernels(const Arguments<Bfloat16>&, void*); \
  template const char* launch_kernels(const Arguments<Float16>&, void*);

RETINA_KERNELS(Match)
RETINA_KERNELS(Atss)
RETINA_KERNELS(IgnorePartial)
RETINA_KERNELS(Nms)
RETINA_KERNELS(Focal)
RETINA_KERNELS(BoxLoss)
RETINA_KERNELS(Dropout)
RETINA_KERNELS(BiasRelu)
RETINA_KERNELS(BiasReluBackward)
RETINA_KERNELS(GroupNormForward)
RETINA_KERNELS(GroupNormBackward)
RETINA_KERNELS(BatchNormForward)
RETINA_KERNELS(BatchNormBackward)
const char* launch_kernels(const PrepareImages& arguments, void* stream);

}  // namespace retina::kernels
