#include "shared/onnx/onnx_check.h"

#include <algorithm>

#include "shared/base/error.h"
#include "shared/onnx/onnx_file.h"
#include "shared/onnx/onnx_model.h"
#include "shared/onnx/wire.h"

namespace retina {

using namespace onnx_field;

namespace {

constexpr const char* kGraph = "graph";
constexpr const char* kHint =
    "convert the checkpoint with this version's retina-convert; retina-eval --detections scores "
    "what any model found";

// Gives tensors of the shapes that the graph wants, without numbers.
class NoNumbers : public NetworkArrays {
 public:
  LayerArrays layer(const std::string&, const LayerShape& shape) const override {
    return {.weight = {.shape = shape}, .bias = {.shape = {shape.front()}}};
  }
  LayerArrays folded(const std::string& conv, const std::string&,
                     const LayerShape& shape) const override {
    return layer(conv, shape);
  }
  LayerArrays without_bias(const std::string& prefix, const LayerShape& shape) const override {
    return layer(prefix, shape);
  }
  Array row(const std::string&, std::int64_t count) const override { return {.shape = {count}}; }
};

std::uint64_t element_bytes(TensorType type) {
  switch (type) {
    case TensorType::kFloat:
    case TensorType::kInt32:
      return 4;
    case TensorType::kInt64:
      return 8;
    case TensorType::kFloat16:
      return 2;
    case TensorType::kInt8:
    case TensorType::kUint8:
      break;
  }
  return 1;
}

void check_header(const InferenceHeader& header, const ModelConfig& config,
                  const std::string& subject) {
  const auto refuse = [&](const std::string& problem) {
    throw Error(ErrorKind::kData, cat(subject, ": its header is of no model: ", problem), kHint);
  };
  if (config.task != header.task) refuse("two tasks");
  if (header.categories.size() != static_cast<std::size_t>(config.class_count)) {
    refuse(cat(header.categories.size(), " names of ", config.class_count, " classes"));
  }
  if (config.task == Task::kClassification && !header.form.postprocess) refuse("its form");
  try {
    PostprocessOptions{.score_threshold = header.score_threshold,
                       .nms_threshold = header.nms_threshold,
                       .max_detections = header.max_detections}
        .validate();
  } catch (const Error& error) {
    refuse(error.what());
  }
}

std::string name_of(const WireField& graph_part) {
  switch (graph_part.number) {
    case kGraphNode:
      return cat("node ", first_field(graph_part.bytes, kNodeName));
    case kGraphInitializer:
      return cat("tensor ", first_field(graph_part.bytes, kTensorName));
    case kGraphName:
      return "graph's name";
    default:
      return cat("value ", first_field(graph_part.bytes, kValueName));
  }
}

}  // namespace

// Returns the piece of a tensor, whose trained numbers a draft lacks.
OnnxPattern::Piece OnnxPattern::piece_of(const std::string& name, std::string_view tensor,
                                         std::string_view encoded) {
  std::uint64_t number_bytes = 1;
  WireReader reader(tensor);
  while (const auto field = reader.next()) {
    if (field->number == kTensorRaw) return {.name = name, .bytes = std::string(encoded)};
    if (field->number == kTensorDims) number_bytes *= field->varint;
    if (field->number == kTensorType) {
      number_bytes *= element_bytes(static_cast<TensorType>(field->varint));
    }
  }
  const std::string begin = cat(tensor, wire_prefix(kTensorRaw, number_bytes));
  return {.name = name,
          .bytes = cat(wire_prefix(kGraphInitializer, begin.size() + number_bytes), begin),
          .trained_bytes = number_bytes};
}

OnnxPattern::OnnxPattern(const InferenceHeader& header, const std::string& subject) {
  check_header(header, model_config_of(header.config_json, subject), subject);
  const OnnxModel draft = draft_onnx_model(header, NoNumbers(), /*ranges=*/std::nullopt);
  WireReader model(draft.bytes);
  while (const auto field = model.next()) {
    if (field->number != kModelGraph) {
      pieces_.push_back(
          {.name = cat("field ", field->number), .bytes = std::string(field->encoded)});
      continue;
    }
    const std::size_t place = pieces_.size();
    pieces_.push_back({.name = kGraph});
    std::uint64_t graph_bytes = 0;
    WireReader graph(field->bytes);
    while (const auto part = graph.next()) {
      const bool is_tensor = part->number == kGraphInitializer;
      pieces_.push_back(is_tensor
                            ? piece_of(name_of(*part), part->bytes, part->encoded)
                            : Piece{.name = name_of(*part), .bytes = std::string(part->encoded)});
      graph_bytes += pieces_.back().bytes.size() + pieces_.back().trained_bytes;
    }
    pieces_[place].bytes = wire_prefix(kModelGraph, graph_bytes);
  }
}

std::uint64_t OnnxPattern::file_bytes() const {
  std::uint64_t sum = kOnnxSealBytes;
  for (const Piece& piece : pieces_) sum += piece.bytes.size() + piece.trained_bytes;
  return sum;
}

std::optional<std::string> OnnxPattern::difference(std::string_view file) const {
  std::optional<std::string> found;
  for (const auto& [name, bytes, trained_bytes] : pieces_) {
    if (!file.starts_with(bytes)) {
      found = cat("its ", name, " is not as retina-convert writes it");
      // A graph of another size: the part of it that differs says more.
      const auto graph = WireReader(file).next();
      if (name != kGraph || !graph || graph->number != kModelGraph) return found;
      file.remove_prefix(graph->encoded.size() - graph->bytes.size());
      continue;
    }
    file.remove_prefix(bytes.size());
    file.remove_prefix(std::min<std::uint64_t>(file.size(), trained_bytes));
  }
  if (!found && file.size() != kOnnxSealBytes) found = "does not end as retina-convert's files do";
  return found;
}

InferenceHeader check_onnx_model(std::string_view file, const std::string& subject) {
  InferenceHeader header = read_inference_header(file, subject);
  if (const auto difference = OnnxPattern(header, subject).difference(file)) {
    throw Error(ErrorKind::kData, cat(subject, ": ", *difference), kHint);
  }
  return header;
}

CheckedModel read_onnx_model(const std::string& path) {
  CheckedModel model{.bytes = read_onnx_file(path)};
  model.header = check_onnx_model(model.bytes, path);
  return model;
}

}  // namespace retina
