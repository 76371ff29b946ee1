// Small parts that several figures of the network share.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>

#include <memory>
#include <string>
#include <vector>

namespace retina {

struct ConvShape {
  int in_channels = 0;
  int out_channels = 0;
  int kernel = 1;
  int stride = 1;
  bool bias = true;
};

// A square convolution padded so that stride 1 keeps the size. Its weights are uninitialised.
torch::nn::Conv2d make_conv(const ConvShape& shape);

// A module that only gives names: child i is called "i", as in Python's nn.Sequential.
class NumberedImpl : public torch::nn::Module {
 public:
  void add(std::shared_ptr<torch::nn::Module> child);
};
TORCH_MODULE(Numbered);

}  // namespace retina
