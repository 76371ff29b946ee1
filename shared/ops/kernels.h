// The kernels behind the operations: raw pointers, one CPU and one CUDA twin each. No
// ATen here: nvcc reads this file too, as C++17. A CUDA twin runs on `stream` (a cudaStream_t),
// does not wait, and returns nullptr or CUDA's error text; in a build without CUDA it throws
// Error{kUnavailable}.
#pragma once

#include <cstdint>

#include "shared/image/resample.h"
#include "shared/ops/box_loss_kind.h"
#include "shared/ops/formulas.h"

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

template <class T>
struct Nms {
  const T* boxes;              // [N, M, 4], of each image by falling score
  const std::int64_t* labels;  // [N, M], negative: no box; or nullptr: all of one class
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

  // Where values of an anchor, counted over all levels, are.
  RETINA_HOST_DEVICE std::int64_t place(std::int64_t image, std::int64_t anchor,
                                        std::int64_t values_per_anchor) const {
    return (image * anchor_count + anchor - first_anchor) * values_per_anchor;
  }
  RETINA_HOST_DEVICE std::int64_t end_anchor() const { return first_anchor + anchor_count; }
};
constexpr int kMaxLevels = 8;

// What both losses get. `Stored` is how the outputs lie in memory, T what is computed in.
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

template <class Stored, class T = Loaded<Stored>>
struct Focal {
  HeadLoss<Stored> head;
  const std::int64_t* labels;  // [G]
  std::int64_t class_count;
  T alpha, gamma;
};

template <class Stored, class T = Loaded<Stored>>
struct BoxLoss {
  HeadLoss<Stored> head;
  const T* anchors;  // [A, 4]
  const T* boxes;    // [G, 4]
  BoxLossOptions options;
  double max_log_size;  // GIoU: what decoding believes (box_coder.h)
};

struct PreparePictures {
  const std::uint8_t* block;
  const PictureRow* rows;  // [N]
  std::int64_t image_count;
  int height, width;  // padded
  ChannelStatistics statistics;
  bool rounds_to_bf16;
  void* out;  // [N, H, W, 3] f32 or bf16
};

struct PixelPlace {
  int x, y;
};

// Writes pixel number `pixel` of the batch, which is at `place` of the image of `row`.
RETINA_HOST_DEVICE void put_pixel(const PreparePictures& p, const PictureRow& row,
                                  const PixelPlace& place, std::int64_t pixel) {
  float rgb[3];
  batch_pixel(p.block, row, p.statistics, place.x, place.y, rgb);
  for (int c = 0; c < 3; ++c) {
    if (p.rounds_to_bf16) {
      store(rgb[c], static_cast<Bfloat16*>(p.out) + 3 * pixel + c);
    } else {
      store(rgb[c], static_cast<float*>(p.out) + 3 * pixel + c);
    }
  }
}

// Each image's sum is made of this many parts, each over a fixed share of the anchors, added in
// order: the bits depend neither on the number of threads nor on their timing.
constexpr int kPartials = 256;

template <class T>
void match_cpu(const Match<T>& arguments);
template <class T>
void nms_cpu(const Nms<T>& arguments);
template <class Stored>
void focal_cpu(const Focal<Stored>& arguments);
template <class Stored>
void box_loss_cpu(const BoxLoss<Stored>& arguments);
void prepare_pictures_cpu(const PreparePictures& arguments);

template <class T>
const char* match_cuda(const Match<T>& arguments, void* stream);
template <class T>
const char* nms_cuda(const Nms<T>& arguments, void* stream);
template <class Stored>
const char* focal_cuda(const Focal<Stored>& arguments, void* stream);
template <class Stored>
const char* box_loss_cuda(const BoxLoss<Stored>& arguments, void* stream);
const char* prepare_pictures_cuda(const PreparePictures& arguments, void* stream);

}  // namespace retina::kernels
