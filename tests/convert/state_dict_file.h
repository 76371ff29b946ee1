// A state dict as torch.save writes it, for what imports one.
#pragma once

#include <string>

#include "shared/ops/named_tensor.h"

namespace retina {

// The bytes of a .pth file with the tensors, in the zip or in the `legacy` container.
std::string pth_of(const NamedTensors& tensors, bool legacy = false);

}  // namespace retina
