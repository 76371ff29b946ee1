#include "shared/onnx/onnx_file.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <limits>

#include "shared/base/error.h"
#include "shared/base/printable.h"

namespace retina {
namespace {

constexpr const char* kTrustHint =
    "convert the checkpoint with this version's retina-convert, or give --trust if you know who "
    "made the file";

constexpr std::string_view kOperators[] = {
    "Add",
    "And",
    "Cast",
    "Concat",
    "Conv",
    "DequantizeLinear",
    "Div",
    "Equal",
    "Exp",
    "Expand",
    "Flatten",
    "Gather",
    "GatherND",
    "Gemm",
    "GlobalAveragePool",
    "Greater",
    "GreaterOrEqual",
    "Identity",
    "InstanceNormalization",
    "LessOrEqual",
    "Max",
    "MaxPool",
    "Min",
    "Mul",
    "NonMaxSuppression",
    "Pad",
    "QuantizeLinear",
    "Range",
    "ReduceSum",
    "Relu",
    "Reshape",
    "Resize",
    "ScatterND",
    "Shape",
    "Sigmoid",
    "Slice",
    "Softmax",
    "Squeeze",
    "Sub",
    "TopK",
    "Transpose",
    "Unsqueeze",
    "Where",
};

onnx::ModelProto parsed(std::string_view bytes, const std::string& subject) {
  onnx::ModelProto model;
  if (bytes.size() > std::numeric_limits<int>::max() ||
      !model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    throw Error(ErrorKind::kData, cat(subject, ": not an ONNX model"),
                "copy the file again, or use another one");
  }
  return model;
}

}  // namespace

std::string onnx_metadata(std::string_view bytes, const std::string& key,
                          const std::string& subject) {
  const onnx::ModelProto model = parsed(bytes, subject);
  for (const onnx::StringStringEntryProto& entry : model.metadata_props()) {
    if (entry.key() == key) return entry.value();
  }
  throw Error(ErrorKind::kData, cat(subject, ": not a model of retina-convert (no ", key, ")"),
              "convert a checkpoint with retina-convert --format onnx");
}

bool set_onnx_number(std::string& bytes, const std::string& name, float number,
                     const std::string& subject) {
  onnx::ModelProto model = parsed(bytes, subject);
  for (onnx::TensorProto& tensor : *model.mutable_graph()->mutable_initializer()) {
    if (tensor.name() != name) continue;
    tensor.set_raw_data(&number, sizeof number);
    bytes = model.SerializeAsString();
    return true;
  }
  return false;
}

std::span<const std::string_view> onnx_operators() {
  return kOperators;
}

void check_onnx_model(std::string_view bytes, const std::string& subject) {
  const onnx::ModelProto model = parsed(bytes, subject);
  const auto refuse = [&](const std::string& problem) {
    throw Error(ErrorKind::kData,
                cat(subject, ": ", problem, ", which no model of retina-convert does"), kTrustHint);
  };
  if (model.functions_size() > 0) refuse("defines functions");
  if (model.graph().sparse_initializer_size() > 0) refuse("has sparse tensors");
  for (const onnx::TensorProto& tensor : model.graph().initializer()) {
    if (tensor.data_location() == onnx::TensorProto::EXTERNAL || tensor.external_data_size() > 0) {
      refuse(cat("keeps ", printable(tensor.name()), " in another file"));
    }
  }
  for (const onnx::NodeProto& node : model.graph().node()) {
    const std::string_view name = node.op_type();
    if (!node.domain().empty() ||
        !std::binary_search(std::begin(kOperators), std::end(kOperators), name)) {
      refuse(cat("uses ", printable(node.domain()), node.domain().empty() ? "" : ".",
                 printable(name)));
    }
    for (const onnx::AttributeProto& attribute : node.attribute()) {
      if (attribute.has_g() || attribute.graphs_size() > 0) refuse("hides a graph in a node");
      if (attribute.has_t() || attribute.tensors_size() > 0) refuse("hides a tensor in a node");
    }
  }
}

}  // namespace retina
