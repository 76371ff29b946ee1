// The kernels behind the operations: raw pointers, f32 and f64, one CPU and one CUDA twin each. No
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
  const T* anchors;  // [A, 4]
  const T* boxes;    // [G, 4], G >= 1
  std::int64_t anchor_count;
  std::int64_t box_count;
  T foreground_iou, background_iou;
  bool low_quality_matches;
  std::int64_t first_index;
  T* best_of_box;         // [G] scratch, zeroed
  std::int64_t* matches;  // [A] out
};

template <class T>
struct Nms {
  const T* boxes;              // [M, 4], by falling score
  const std::int64_t* labels;  // [M] or nullptr: all of one class
  std::int64_t count;
  double iou_threshold;
  std::uint64_t* mask;  // CUDA only: [M + 1, ceil(M / 64)] scratch
  bool* keep;           // [M] out
};

template <class T>
struct Focal {
  const T* logits;              // [N, A, K]
  const std::int64_t* matches;  // [N, A]
  const std::int64_t* labels;   // [G]
  std::int64_t image_count, anchor_count, class_count;
  T alpha, gamma;
  double* partials;  // [N, kPartials] scratch
  T* sums;           // [N] out
  T* gradient;       // [N, A, K] out or nullptr
};

template <class T>
struct BoxLoss {
  const T* deltas;              // [N, A, 4]
  const T* anchors;             // [A, 4]
  const T* boxes;               // [G, 4]
  const std::int64_t* matches;  // [N, A]
  std::int64_t image_count, anchor_count;
  BoxLossOptions options;
  double max_log_size;  // GIoU: what decoding believes (box_coder.h)
  double* partials;     // [N, kPartials] scratch
  T* sums;              // [N] out
  T* gradient;          // [N, A, 4] out or nullptr
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
      // To nearest even; no value is NaN.
      const std::uint32_t bits = bits_of_float(rgb[c]);
      static_cast<std::uint16_t*>(p.out)[3 * pixel + c] =
          static_cast<std::uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
    } else {
      static_cast<float*>(p.out)[3 * pixel + c] = rgb[c];
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
template <class T>
void focal_cpu(const Focal<T>& arguments);
template <class T>
void box_loss_cpu(const BoxLoss<T>& arguments);
void prepare_pictures_cpu(const PreparePictures& arguments);

template <class T>
const char* match_cuda(const Match<T>& arguments, void* stream);
template <class T>
const char* nms_cuda(const Nms<T>& arguments, void* stream);
template <class T>
const char* focal_cuda(const Focal<T>& arguments, void* stream);
template <class T>
const char* box_loss_cuda(const BoxLoss<T>& arguments, void* stream);
const char* prepare_pictures_cuda(const PreparePictures& arguments, void* stream);

}  // namespace retina::kernels
