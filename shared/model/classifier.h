// Image classifiers: backbones with their last layers under torchvision's names, and the small
// network of Keras' CIFAR-10 example.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "shared/model/network.h"

namespace retina {

// Seed of dropout in training (ops/dropout.h): the step, and each image's slot in it. The dropped
// values do not depend on which rank computes an image, nor on earlier draws.
struct DropoutPlace {
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  at::Tensor slots = {};  // [N] i64, on the images' device
};

class Classifier : public Network {
 public:
  // Computes images [N, 3, S, S] f32, normalised; S is config().min_side_px (a backbone takes any
  // size) -> [N, K] logits, f32 or the type of autocast. `place` is used in training only.
  virtual at::Tensor forward(const at::Tensor& images, const DropoutPlace& place) const = 0;
  at::Tensor forward(const at::Tensor& images) const { return forward(images, {}); }

 protected:
  using Network::Network;
};

// Makes the network of config.backbone. Parity with torchvision: tests/parity.
//
// cifar-cnn, as in github.com/keras-team/keras 2.2's examples/cifar10_cnn.py, with ReLU after each
// layer but the last: conv 32 3x3 same, conv 32 3x3 valid, max pool 2, dropout .25, conv 64 3x3
// same, conv 64 3x3 valid, max pool 2, dropout .25, dense 512, dropout .5, dense K. Glorot uniform
// (Glorot & Bengio 2010), biases 0. 1,250,858 parameters for 32 px and 10 classes. The dense layer
// reads [C, H, W] in that order. Its tensors: conv1 .. conv4, fc1, fc2.
std::unique_ptr<Classifier> make_classifier(const ModelConfig& config);

}  // namespace retina
