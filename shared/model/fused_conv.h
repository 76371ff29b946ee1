// A convolution, its bias, a residual and a ReLU in one call of cuDNN, for training on GPUs: what
// otherwise reads and writes the convolution's output once more (bias_relu.h). cuDNN need not round
// as we do, keep NaN, or have a kernel for a shape: so a run compares both forms on its own shapes
// before it begins.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>

namespace retina {

// y = max(0, x * weight + bias + residual), the convolution being square and of one group.
struct ConvRelu {
  at::Tensor x;         // [N, in, H, W] on a GPU, f32, f16 or bf16
  at::Tensor weight;    // [out, in, k, k], x's type
  at::Tensor bias;      // [out] f32, or undefined
  at::Tensor residual;  // y's shape, x's type, or undefined
  std::int64_t stride = 1, padding = 0;
};

// By aten::cudnn_convolution_relu or, with a residual, cudnn_convolution_add_relu. The bias is
// rounded to x's type, which is what cuDNN takes; the sum is made in f32 and rounded once. The
// gradient is that of bias_relu() and of the convolution, by LibTorch's convolution_backward; it
// cannot be differentiated itself. Throws c10::Error where cuDNN has no such kernel.
at::Tensor fused_conv_relu(const ConvRelu& c);

// Whether the fused form does what the other does.
class FusedConvCheck {
 public:
  // Compares both on random values of c's shapes, types and strides, unless these were compared
  // before. They agree where they differ by no more than rounding allows: each value by its terms'
  // roundings to x's type, twice, and by 64 roundings of f32 (with TF32 8 of TF32) of the
  // root-mean-square of a sum of that many products. Then again with a NaN in x: the same outputs
  // must be NaN. Waits for the device.
  void compare(const ConvRelu& c);

  int compared() const { return static_cast<int>(seen_.size()); }
  // The largest difference, as a share of what rounding allows.
  double largest_share() const { return largest_share_; }
  // The first shape's that do not agree, in words; "" where all do.
  const std::string& problem() const { return problem_; }

 private:
  std::string problem_of(const ConvRelu& c);

  std::set<std::string> seen_;
  double largest_share_ = 0;
  std::string problem_;
};

// On this thread, within its life: what forward passes do with a convolution that has a ReLU behind
// it. Outside of any they do not fuse.
class FusedConvScope {
 public:
  explicit FusedConvScope(bool fuses) : FusedConvScope(fuses, nullptr) {}
  // They do not fuse, and each is compared.
  explicit FusedConvScope(FusedConvCheck& check) : FusedConvScope(false, &check) {}
  ~FusedConvScope();
  FusedConvScope(const FusedConvScope&) = delete;
  FusedConvScope& operator=(const FusedConvScope&) = delete;

 private:
  FusedConvScope(bool fuses, FusedConvCheck* check);
  bool fused_before_;
  FusedConvCheck* check_before_;
};

// What the scope has the caller do: the output, or nothing where it is to be made without fusing.
// x, weight and residual may have other types: under autocast they get its type, as a convolution's
// inputs do.
std::optional<at::Tensor> fused_in_scope(const ConvRelu& c);

}  // namespace retina
