#include "shared/onnx/onnx_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/onnx/difference.h"
#include "shared/onnx/onnx_file.h"
#include "shared/onnx/onnx_model.h"
#include "shared/onnx/wire.h"

namespace retina {

using namespace onnx_field;

namespace {

// --- The wanted graph ---------------------------------------------------------------------------

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

std::uint64_t element_bytes(std::uint64_t type) {
  switch (static_cast<TensorType>(type)) {
    case TensorType::kFloat:
    case TensorType::kInt32:
      return 4;
    case TensorType::kInt64:
      return 8;
    case TensorType::kFloat16:
      return 2;
    case TensorType::kInt8:
    case TensorType::kUint8:
      return 1;
  }
  return 1;
}

// Returns the wanted form of a TensorProto of our draft.
WantedTensor wanted_tensor(std::string_view tensor, NumberRule rule) {
  WantedTensor want{.name = std::string(text_of(tensor, kTensorName)), .rule = rule};
  WireReader reader(tensor);
  std::uint64_t element_count = 1, type = 0;
  while (const auto field = reader.next()) {
    if (field->number == kTensorRaw) {
      want.numbers = field->bytes;
      continue;
    }
    if (field->number == kTensorDims) element_count *= field->varint;
    if (field->number == kTensorType) type = field->varint;
    want.begin += field->encoded;
  }
  want.number_bytes = element_count * element_bytes(type);
  want.is_half = type == static_cast<std::uint64_t>(TensorType::kFloat16);
  return want;
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

// Returns nullptr if the numbers satisfy the rule, else how they break it.
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

// Protobuf's own limit of a file.
constexpr std::uint64_t kMostFileBytes = std::uint64_t{2} << 30;

}  // namespace

struct OnnxPattern::Parts {
  struct WantedField {
    std::uint32_t number;
    std::string bytes;  // of a field of the graph, its content
  };
  std::vector<WantedField> before{}, behind{};  // the graph: encoded fields of the model
  std::vector<WantedField> graph{};             // its fields in order
  std::vector<WantedTensor> tensors{};          // those of the graph, in the same order
  std::uint64_t graph_bytes = 0;

  std::optional<std::string> graph_difference(std::string_view got) const;
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
  // The draft without numbers is cut into fields, which difference() compares one by one.
  const OnnxModel draft = draft_onnx_model(header, NoNumbers(), /*ranges=*/std::nullopt);
  auto parts = std::make_unique<Parts>();
  file_bytes_ = kOnnxSealBytes;
  WireReader model(draft.bytes);
  while (const auto field = model.next()) {
    if (field->number != kModelGraph) {
      file_bytes_ += field->encoded.size();
      (field->number < kModelGraph ? parts->before : parts->behind)
          .push_back({.number = field->number, .bytes = std::string(field->encoded)});
      continue;
    }
    WireReader graph(field->bytes);
    while (const auto part = graph.next()) {
      std::uint64_t size_bytes = part->bytes.size();
      if (part->number == kGraphInitializer) {
        parts->tensors.push_back(
            wanted_tensor(part->bytes, draft.number_rules[parts->tensors.size()]));
        size_bytes = parts->tensors.back().size_bytes();
      }
      parts->graph.push_back({.number = part->number, .bytes = std::string(part->bytes)});
      parts->graph_bytes += wire_bytes(part->number, size_bytes);
    }
    file_bytes_ += wire_bytes(kModelGraph, parts->graph_bytes);
  }
  parts_ = std::move(parts);
}

OnnxPattern::~OnnxPattern() = default;

std::optional<std::string> OnnxPattern::Parts::graph_difference(std::string_view got) const {
  WireReader reader(got);
  std::size_t node_count = 0, tensor_count = 0;
  for (const WantedField& want : graph) {
    // The part of the file that is checked next, in words.
    const std::optional<WireField> field = reader.next();
    const bool is_tensor = want.number == kGraphInitializer;
    const std::string what = want.number == kGraphNode ? cat("node ", ++node_count)
                             : want.number == kGraphName
                                 ? cat("name behind its ", node_count, " nodes")
                             : is_tensor ? cat("tensor ", ++tensor_count)
                                         : cat(want.number == kGraphInput ? "input " : "output ",
                                               quoted_name(text_of(want.bytes, kValueName)));
    if (!field || field->number != want.number || !field->has_length) {
      return cat("the graph has no ", what, " where retina-convert's has one");
    }
    const std::string_view message = field->bytes;
    if (field->encoded.size() != wire_bytes(want.number, message.size())) {
      return what + " is encoded differently";
    }
    // A tensor's numbers may differ, as its rule says.
    if (is_tensor) {
      const WantedTensor& tensor = tensors[tensor_count - 1];
      const std::string start = tensor.begin + wire_prefix(kTensorRaw, tensor.number_bytes);
      if (message.size() != tensor.size_bytes() || !message.starts_with(start)) {
        return tensor_difference(tensor_count - 1, message, tensor);
      }
      const char* const broken = broken_rule(tensor, message.substr(start.size()));
      if (broken != nullptr) return cat("tensor ", quoted_name(tensor.name), ": ", broken);
      continue;
    }
    if (message == want.bytes) continue;
    if (want.number == kGraphNode) return node_difference(node_count - 1, message, want.bytes);
    if (want.number == kGraphName) {
      return cat("the graph is called ", quoted_name(message), ", want ", want.bytes);
    }
    return what + ": has another name, type or shape";
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
    if (field && field->encoded == want.bytes) return std::nullopt;
    const std::string name = model_field_name(want.number);
    if (!field) return cat("has no ", name);
    if (field->number != want.number)
      return cat("has ", model_field_name(field->number), ", want ", name);
    WireReader wanted(want.bytes);
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
  // The graph may be cut off: only a part of a larger file is read.
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
              is_broken ? cat("copy the file again; or ", kForeignModelHint) : kForeignModelHint);
}

CheckedModel read_onnx_model(const std::string& path) {
  const FileReader file(path);
  CheckedModel checked;
  std::optional<OnnxPattern> pattern;
  try {
    checked.header = peek_inference_header(path);
    pattern.emplace(checked.header, path);
  } catch (const Error& error) {
    // The reason for a damaged header is a damaged file.
    if (error.kind() == ErrorKind::kData && is_of_retina_convert(path)) check_onnx_seal(path);
    throw;
  }
  // One byte more shows whether the file goes on.
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
    throw Error(ErrorKind::kData, cat(subject, ": ", *difference), kForeignModelHint);
  }
  return header;
}

}  // namespace retina
