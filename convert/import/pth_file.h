// The .pth files of torch.save, both of its containers: the zip of PyTorch 1.6 and later, and the
// sequence of pickles before that. Gives the named tensors of the state dict inside, as checked
// views.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shared/checkpoint/foreign/pickle_reader.h"

namespace retina {

struct ForeignTensor {
  std::string name{};  // printable, at most 80 bytes
  ElementKind element = ElementKind::kFloat32;
  std::vector<std::int64_t> shape{}, strides{};  // elements; strides >= 0
  // From the tensor's first element to its last, inside the file; not aligned.
  std::string_view bytes{};
};

// The tensors of a file.
struct ForeignWeights {
  std::vector<ForeignTensor> tensors{};  // in the file's order
  // Keys of the average that was taken and of the weights that were not, where the file holds both;
  // else both are empty.
  std::string average{}, weights{};
};

// Returns the tensors of the state dict in `bytes`: the file's own dict, or the one under one of
// its keys (training checkpoints; "model", "state_dict" and others, kWeightKeys). A moving average
// (kAverageKeys) has precedence over the weights, since the training validated it. `bytes` must
// outlive the result. Guarantees that shape and strides span exactly `bytes`, that no tensor has
// more elements than its storage, and that copies of all `bytes` take at most 4 times the file's
// size. Throws Error{kData} beginning with `subject`: damaged, cut short, not a .pth file, names
// that no state dict needs, a tensor outside its storage. Runs no code of the file
// (tests/fuzz/pth_fuzz.cpp).
ForeignWeights parse_pth(std::string_view bytes, const std::string& subject);

}  // namespace retina
