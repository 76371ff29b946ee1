// The .pth files of torch.save, both of its containers: the zip of PyTorch 1.6 and later, and the
// sequence of pickles before that. Gives the named tensors of the state dict inside, as checked
// views.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "shared/checkpoint/foreign/pickle_reader.h"

namespace retina {

// The two containers of torch.save, opened: the pickle and the bytes of its storages.
struct PthContainer {
  PickleDocument pickle{};
  // By the storages' keys; each has exactly as many bytes as its pickle says.
  std::map<std::string_view, std::string_view> storages{};
};

// Takes either container by its first bytes. Throws Error{kData}.
PthContainer open_container(std::string_view bytes, const std::string& subject);

struct ForeignTensor {
  std::string name{};  // printable, at most 80 bytes
  ElementKind element = ElementKind::kFloat32;
  std::vector<std::int64_t> shape{}, strides{};  // elements; strides >= 0
  // From the tensor's first element to its last, inside the file; not aligned.
  std::string_view bytes{};
};

// What a file holds.
struct ForeignWeights {
  std::vector<ForeignTensor> tensors{};  // in the file's order
  // Where the file holds the weights and their moving average: the keys of the one that was taken,
  // the average, and of the other; else both are empty.
  std::string average{}, weights{};
};

// The tensors of the state dict in `bytes`: of the dict that the file holds, or of that under one
// of its keys (training checkpoints; "model", "state_dict" and others, kWeightKeys), a moving
// average (kAverageKeys) before the weights themselves: it is what its training validated. `bytes`
// must outlive the result. Guarantees that shape and strides span exactly `bytes`, that no tensor
// has more elements than its storage, and that copies of all `bytes` take at most 4 times the
// file's size. Throws Error{kData} beginning with `subject`: damaged, cut short, not a .pth file,
// names that no state dict needs, a tensor outside its storage. Runs no code of the file
// (tests/fuzz/pth_fuzz.cpp).
ForeignWeights parse_pth(std::string_view bytes, const std::string& subject);

}  // namespace retina
