#include "shared/onnx/onnx_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/onnx/difference.h"
#include "shared/onnx/onnx_draft.h"
#include "shared/onnx/onnx_file.h"
#include "shared/onnx/wire.h"

namespace retina {

using namespace onnx_field;

namespace {

// --- The wanted graph ---------------------------------------------------------------------------

// Tensors of the shapes that the graph wants, without numbers.
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

std::uint64_t element_bytes(int type) {
  switch (type) {
    case onnx::TensorProto::FLOAT:
    case onnx::TensorProto::INT32:
      return 4;
    case onnx::TensorProto::INT64:
      return 8;
    case onnx::TensorProto::FLOAT16:
      return 2;
    default:
      return 1;
  }
}

std::uint64_t number_bytes(const onnx::TensorProto& tensor) {
  return std::accumulate(tensor.dims().begin(), tensor.dims().end(),
                         element_bytes(tensor.data_type()),
                         [](std::uint64_t bytes, std::int64_t side) {
                           return bytes * static_cast<std::uint64_t>(side);
                         });
}

// --- Numbers ------------------------------------------------------------------------------------

template <class T, class Accept>
bool all_of_numbers(std::string_view bytes, Accept accept) {
  constexpr std::size_t kBlock = 1024;
  T block[kBlock];
  for (std::size_t place = 0; place < bytes.size(); place += sizeof block) {
    const std::size_t size = std::min(sizeof block, bytes.size() - place);
    std::memcpy(block, bytes.data() + place, size);
    bool fits = true;
    for (std::size_t i = 0; i < size / sizeof(T); ++i) fits &= accept(block[i]);
    if (!fits) return false;
  }
  return true;
}

// Whether the numbers are what the rule allows, else what they should be.
const char* broken_rule(const WantedTensor& want, std::string_view numbers) {
  switch (want.rule) {
    case NumberRule::kEqual:
      return numbers == want.numbers ? nullptr : "has other numbers than retina-convert's";
    case NumberRule::kFinite: {
      const bool finite =
          want.is_half ? all_of_numbers<std::uint16_t>(
                             numbers, [](std::uint16_t bits) { return (bits & 0x7C00) != 0x7C00; })
                       : all_of_numbers<std::uint32_t>(numbers, [](std::uint32_t bits) {
                           return (bits & 0x7F800000) != 0x7F800000;
                         });
      return finite ? nullptr : "has a number that is not finite";
    }
    case NumberRule::kPositive: {
      const bool positive = all_of_numbers<float>(numbers, [](float number) {
        return number > 0 && number <= std::numeric_limits<float>::max();
      });
      return positive ? nullptr : "has a scale that is not a finite number above 0";
    }
    case NumberRule::kSevenBits: {
      const bool fits = all_of_numbers<std::int8_t>(
          numbers, [](std::int8_t number) { return number >= -63 && number <= 63; });
      return fits ? nullptr : "has a number outside -63..63";
    }
    case NumberRule::kAny:
      return nullptr;
  }
  return nullptr;
}

// Protobuf's own limit.
constexpr std::uint64_t kMostFileBytes = std::uint64_t{2} << 30;

}  // namespace

struct OnnxPattern::Parts {
  struct WantedField {
    std::uint32_t number;
    std::string encoded;
  };
  std::vector<WantedField> before{}, behind{};  // the graph, fields of the model
  std::vector<std::string> nodes{};
  std::string graph_name{};
  std::vector<WantedTensor> tensors{};
  std::vector<std::string> inputs{}, outputs{};
  std::uint64_t graph_bytes = 0;

  std::optional<std::string> graph_difference(std::string_view graph) const;
};

OnnxPattern::OnnxPattern(const InferenceHeader& header, const std::string& subject) {
  const auto refuse = [&](const std::string& problem) {
    throw Error(ErrorKind::kData, cat(subject, ": ", problem),
                "convert the checkpoint with this version's retina-convert");
  };
  const ModelConfig config = model_config_of(header.config_json, subject);
  if (config.task != header.task) {
    refuse(cat("is a model for ", word_of(kTasks, header.task), " by its header and for ",
               word_of(kTasks, config.task), " by its config"));
  }
  if (header.categories.size() != static_cast<std::size_t>(config.class_count)) {
    refuse(cat("names ", header.categories.size(), " classes (want ", config.class_count, ")"));
  }
  if (header.task == Task::kClassification && !header.form.postprocess) {
    refuse("is a classifier without postprocess, which there is not");
  }
  try {
    PostprocessOptions{.score_threshold = header.score_threshold,
                       .nms_threshold = header.nms_threshold,
                       .max_detections = header.max_detections}
        .validate();
  } catch (const Error& error) {
    refuse(error.what());
  }
  OnnxDraft draft = draft_onnx_model(header, NoNumbers(), /*ranges=*/std::nullopt);
  auto parts = std::make_unique<Parts>();
  onnx::GraphProto& graph = *draft.model.mutable_graph();
  for (const onnx::NodeProto& node : graph.node()) parts->nodes.push_back(node.SerializeAsString());
  parts->graph_name = graph.name();
  for (const onnx::ValueInfoProto& one : graph.input()) {
    parts->inputs.push_back(one.SerializeAsString());
  }
  for (const onnx::ValueInfoProto& one : graph.output()) {
    parts->outputs.push_back(one.SerializeAsString());
  }
  for (int place = 0; place < graph.initializer_size(); ++place) {
    onnx::TensorProto& tensor = *graph.mutable_initializer(place);
    const std::string numbers = tensor.raw_data();
    tensor.clear_raw_data();
    const std::uint64_t size_bytes = number_bytes(tensor);
    parts->tensors.push_back({.name = tensor.name(),
                              .begin = tensor.SerializeAsString(),
                              .numbers = numbers,
                              .number_bytes = size_bytes,
                              .rule = draft.number_rules[static_cast<std::size_t>(place)],
                              .is_half = tensor.data_type() == onnx::TensorProto::FLOAT16});
  }
  const auto add = [](std::uint64_t& total, std::uint32_t number, std::uint64_t size_bytes) {
    total += wire_prefix(number, size_bytes).size() + size_bytes;
  };
  for (const std::string& node : parts->nodes) add(parts->graph_bytes, kGraphNode, node.size());
  add(parts->graph_bytes, kGraphName, parts->graph_name.size());
  for (const WantedTensor& tensor : parts->tensors) {
    add(parts->graph_bytes, kGraphInitializer, tensor.size_bytes());
  }
  for (const std::string& one : parts->inputs) add(parts->graph_bytes, kGraphInput, one.size());
  for (const std::string& one : parts->outputs) add(parts->graph_bytes, kGraphOutput, one.size());
  // What is around the graph, field by field.
  draft.model.clear_graph();
  const std::string around = draft.model.SerializeAsString();
  WireReader reader(around);
  file_bytes_ = around.size() + kOnnxSealBytes;
  while (const auto field = reader.next()) {
    (field->number < kModelGraph ? parts->before : parts->behind)
        .push_back({.number = field->number, .encoded = std::string(field->encoded)});
  }
  add(file_bytes_, kModelGraph, parts->graph_bytes);
  parts_ = std::move(parts);
}

OnnxPattern::~OnnxPattern() = default;

std::optional<std::string> OnnxPattern::Parts::graph_difference(std::string_view graph) const {
  WireReader reader(graph);
  // The next message of that kind, or why there is none.
  std::string_view message;
  const auto take = [&](std::uint32_t number, const std::string& what) {
    const std::optional<WireField> field = reader.next();
    if (!field || field->number != number || !field->has_length) {
      return std::optional(cat("the graph has no ", what, " where retina-convert's has one"));
    }
    message = field->bytes;
    return field->encoded.size() == wire_prefix(number, message.size()).size() + message.size()
               ? std::nullopt
               : std::optional(what + " is encoded differently");
  };
  for (std::size_t place = 0; place < nodes.size(); ++place) {
    if (auto problem = take(kGraphNode, cat("node ", place + 1))) return problem;
    if (message != nodes[place]) return node_difference(place, message, nodes[place]);
  }
  if (auto problem = take(kGraphName, cat("name behind its ", nodes.size(), " nodes"))) {
    return problem;
  }
  if (message != graph_name) {
    return cat("the graph is called ", quoted_name(message), ", want ", graph_name);
  }
  for (std::size_t place = 0; place < tensors.size(); ++place) {
    const WantedTensor& want = tensors[place];
    if (auto problem = take(kGraphInitializer, cat("tensor ", place + 1))) return problem;
    const std::string start = want.begin + wire_prefix(kTensorRaw, want.number_bytes);
    if (message.size() != want.size_bytes() || !message.starts_with(start)) {
      return tensor_difference(place, message, want);
    }
    const char* const broken = broken_rule(want, message.substr(start.size()));
    if (broken != nullptr) return cat("tensor ", quoted_name(want.name), ": ", broken);
  }
  for (const auto& [number, wanted] :
       {std::pair{kGraphInput, &inputs}, std::pair{kGraphOutput, &outputs}}) {
    const std::string what = number == kGraphInput ? "input" : "output";
    for (std::size_t place = 0; place < wanted->size(); ++place) {
      const std::string& want = (*wanted)[place];
      const std::string name = cat(what, " ", quoted_name(text_of(want, kValueName)));
      if (auto problem = take(number, name)) return problem;
      if (message != want) return cat(name, ": has another name, type or shape");
    }
  }
  if (const auto field = reader.next()) {
    return cat("the graph goes on where retina-convert's ends (field ", field->number, ")");
  }
  if (!reader.rest().empty()) return "the graph does not end where retina-convert's ends";
  return std::nullopt;
}

std::optional<std::string> OnnxPattern::difference(std::string_view file) const {
  WireReader reader(file);
  const auto expect = [&](const Parts::WantedField& want) -> std::optional<std::string> {
    const std::optional<WireField> field = reader.next();
    if (field && field->encoded == want.encoded) return std::nullopt;
    const std::string name = model_field_name(want.number);
    if (!field) return cat("has no ", name);
    if (field->number != want.number)
      return cat("has ", model_field_name(field->number), ", want ", name);
    WireReader wanted(want.encoded);
    if (want.number == kModelMetadata) {
      const std::string_view key = text_of(wanted.next()->bytes, kEntryKey);
      const std::string_view got = text_of(field->bytes, kEntryKey);
      if (got == key) return cat("its metadata ", key, " are not what retina-convert writes");
      return cat("has the metadata ", quoted_name(got), ", want ", key);
    }
    return name + " is not retina-convert's";
  };
  for (const Parts::WantedField& want : parts_->before) {
    if (auto problem = expect(want)) return problem;
  }
  // It may be cut off: of a larger file only a part is read.
  const std::optional<WireStart> start = wire_start(reader.rest());
  if (!start || start->number != kModelGraph || !start->has_length) return "has no graph";
  const auto start_bytes = static_cast<std::size_t>(start->start_bytes);
  const std::string_view graph =
      reader.rest().substr(start_bytes, static_cast<std::size_t>(start->length_bytes));
  if (auto problem = parts_->graph_difference(graph)) return problem;
  if (!reader.rest().starts_with(wire_prefix(kModelGraph, parts_->graph_bytes)) || !reader.next()) {
    return "the graph is encoded differently";
  }
  for (const Parts::WantedField& want : parts_->behind) {
    if (auto problem = expect(want)) return problem;
  }
  if (file.size() != file_bytes_) {
    return cat("has ", file.size() < file_bytes_ ? "less" : "more",
               " behind its metadata than a seal");
  }
  return std::nullopt;
}

void CheckedModel::throw_if_foreign(const std::string& path) const {
  if (problem.empty()) return;
  throw Error(ErrorKind::kData, cat(path, ": ", problem),
              is_broken ? cat("copy the file again; or ", kTrustHint) : kTrustHint);
}

CheckedModel read_onnx_model(const std::string& path) {
  const FileReader file(path);
  CheckedModel checked;
  std::optional<OnnxPattern> pattern;
  try {
    checked.header = peek_inference_header(path);
    pattern.emplace(checked.header, path);
  } catch (const Error& error) {
    // What is wrong with a damaged header is that the file is damaged.
    if (error.kind() == ErrorKind::kData && is_of_retina_convert(path)) check_onnx_seal(path);
    throw;
  }
  // One byte more tells that the file goes on.
  const std::uint64_t most_bytes = std::min(pattern->file_bytes(), kMostFileBytes) + 1;
  checked.bytes.resize(
      static_cast<std::size_t>(std::min<std::uint64_t>(file.size_bytes(), most_bytes)));
  checked.bytes.resize(file.read_at(0, checked.bytes.data(), checked.bytes.size()));
  const std::optional<std::string> difference = pattern->difference(checked.bytes);
  std::string broken;
  if (!difference) {
    broken = onnx_seal_problem(std::string_view(checked.bytes));
  } else if (file.size_bytes() <= kMostFileBytes) {
    broken = onnx_seal_problem(path);
  }
  checked.is_broken = !broken.empty();
  checked.problem = checked.is_broken ? broken : difference.value_or("");
  return checked;
}

InferenceHeader check_onnx_model(std::string_view file, const std::string& subject) {
  check_onnx_seal(file, subject);
  InferenceHeader header = peek_inference_header(file, subject);
  if (const auto difference = OnnxPattern(header, subject).difference(file)) {
    throw Error(ErrorKind::kData, cat(subject, ": ", *difference), kTrustHint);
  }
  return header;
}

}  // namespace retina
