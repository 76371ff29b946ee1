#include "tests/convert/onnx/graph_operators.h"

#include <onnx/onnx_pb.h>

#include <stdexcept>

namespace retina {

std::vector<std::string> operators_of(const std::string& bytes) {
  onnx::ModelProto model;
  if (!model.ParseFromString(bytes)) throw std::runtime_error("not an ONNX model");
  std::vector<std::string> names;
  for (const onnx::NodeProto& node : model.graph().node()) names.push_back(node.op_type());
  return names;
}

}  // namespace retina
