// Apart from what uses LibTorch, whose headers carry another protobuf.
#pragma once

#include <string>
#include <vector>

namespace retina {

// The op_type of every node of an ONNX model.
std::vector<std::string> operators_of(const std::string& model);

}  // namespace retina
