// The two subnets of RetinaNet (Lin et al. 2017, figure 3 c and d): four 3x3 convolutions of 256
// channels and an output convolution, the same weights on every level.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shared/anchor/anchor.h"
#include "shared/model/config.h"
#include "shared/model/head_shape.h"  // IWYU pragma: export
#include "shared/model/layers.h"

namespace retina {

constexpr double kPriorProbability = 0.01;  // of foreground at the start (Lin et al. 2017, 4.1)

// The weight or bias of the class layer, [9 K, ...], as [9, K, ...]: a row for each anchor shape
// and class, anchor-major. Part of the checkpoint format.
at::Tensor rows_by_class(const at::Tensor& layer);

class Head {
 public:
  // `values_per_anchor` is K for classes, 4 for boxes; `output_name` kClassLayer or kBoxLayer.
  Head(const ModelScope& scope, int values_per_anchor, const std::string& output_name,
       const ModelConfig& config);
  // P3..P7, each [N, 256, h, w] -> [N, h * w * 9, values_per_anchor], anchors in the order of
  // grid_anchors: a view of the last convolution's output where that is channels-last.
  std::vector<at::Tensor> forward(const std::array<at::Tensor, kLevelCount>& pyramid) const;

 private:
  struct GroupNorm {
    at::Tensor weight, bias;  // [256]
  };

  std::int64_t values_per_anchor_;
  std::vector<Conv> convs_;
  std::vector<GroupNorm> norms_;  // empty without head norm
  std::optional<Conv> output_;
};

}  // namespace retina
