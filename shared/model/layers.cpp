#include "shared/model/layers.h"

#include <utility>

namespace retina {

torch::nn::Conv2d make_conv(const ConvShape& shape) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(shape.in_channels, shape.out_channels, shape.kernel)
          .stride(shape.stride)
          .padding(shape.kernel / 2)
          .bias(shape.bias));
}

void NumberedImpl::add(std::shared_ptr<torch::nn::Module> child) {
  register_module(std::to_string(children().size()), std::move(child));
}

}  // namespace retina
