#include "shared/onnx/graph.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/exact_number.h"
#include "shared/numeric/float16.h"

namespace retina {
namespace {

constexpr bool kTrained = true;
constexpr int kOpset = 17, kIrVersion = 8;  // a matching pair (ONNX "Versioning")

bool has_initializer(const onnx::GraphProto& graph, const std::string& name) {
  return std::any_of(graph.initializer().begin(), graph.initializer().end(),
                     [&](const onnx::TensorProto& tensor) { return tensor.name() == name; });
}

void set_type(onnx::ValueInfoProto& info, const std::string& name, TensorType type,
              const OnnxGraph::Shape& shape) {
  info.set_name(name);
  auto* const tensor = info.mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(static_cast<int>(type));
  for (const std::string& word : shape) {
    auto* const dimension = tensor->mutable_shape()->add_dim();
    if (const auto size = exact_number<std::int64_t>(word)) {
      dimension->set_dim_value(*size);
    } else {
      dimension->set_dim_param(word);
    }
  }
}

void set_value(onnx::AttributeProto& attribute, std::int64_t value) {
  attribute.set_type(onnx::AttributeProto::INT);
  attribute.set_i(value);
}
void set_value(onnx::AttributeProto& attribute, float value) {
  attribute.set_type(onnx::AttributeProto::FLOAT);
  attribute.set_f(value);
}
void set_value(onnx::AttributeProto& attribute, const std::string& value) {
  attribute.set_type(onnx::AttributeProto::STRING);
  attribute.set_s(value);
}
void set_value(onnx::AttributeProto& attribute, const std::vector<std::int64_t>& values) {
  attribute.set_type(onnx::AttributeProto::INTS);
  for (const std::int64_t value : values) attribute.add_ints(value);
}

}  // namespace

OnnxGraph::OnnxGraph(WeightType weight_type, std::optional<ValueRanges> ranges)
    : graph_(std::make_unique<onnx::GraphProto>()),
      weight_type_(weight_type),
      ranges_(std::move(ranges)) {}

OnnxGraph::~OnnxGraph() = default;

std::string OnnxGraph::fresh_name(const std::string& op) {
  return cat(scope_, "/", op, "_", ++node_count_);
}

std::vector<Value> OnnxGraph::nodes(const std::string& op, const std::vector<Value>& inputs,
                                    std::size_t output_count,
                                    const std::vector<Attribute>& attributes) {
  onnx::NodeProto& node = *graph_->add_node();
  node.set_op_type(op);
  node.set_name(fresh_name(op));
  for (const Value& input : inputs) node.add_input(input);
  std::vector<Value> outputs;
  for (std::size_t place = 0; place < output_count; ++place) {
    outputs.push_back(output_count == 1 ? node.name() : cat(node.name(), ".", place));
    node.add_output(outputs.back());
  }
  for (const Attribute& attribute : attributes) {
    onnx::AttributeProto& proto = *node.add_attribute();
    proto.set_name(attribute.name);
    std::visit([&](const auto& value) { set_value(proto, value); }, attribute.value);
  }
  return outputs;
}

Value OnnxGraph::node(const std::string& op, const std::vector<Value>& inputs,
                      const std::vector<Attribute>& attributes, const std::string& name) {
  const Value made = nodes(op, inputs, 1, attributes).front();
  if (name.empty()) return made;
  --node_count_;
  onnx::NodeProto& node = *graph_->mutable_node(graph_->node_size() - 1);
  node.set_name(name);
  node.set_output(0, name);
  return name;
}

template <class T>
Value OnnxGraph::stored(TensorType type, const std::vector<std::int64_t>& shape,
                        const std::vector<T>& numbers, const std::string& name, bool is_trained) {
  onnx::TensorProto& tensor = *graph_->add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(static_cast<int>(type));
  for (const std::int64_t size : shape) tensor.add_dims(size);
  if (!ranges_ && is_trained) return name;
  // Little-endian, the order of ONNX's raw data and of x86 and ARM.
  tensor.set_raw_data(numbers.data(), numbers.size() * sizeof(T));
  return name;
}

Value OnnxGraph::numbers(const Array& array, const std::string& name) {
  return stored(TensorType::kFloat, array.shape, array.numbers, name);
}

Value OnnxGraph::trained(const Array& array, const std::string& name) {
  return stored(TensorType::kFloat, array.shape, array.numbers, place(name), kTrained);
}

template <class T>
Value OnnxGraph::constant(const char* kind, const std::vector<std::int64_t>& shape,
                          const std::vector<T>& numbers) {
  std::string name = kind;
  for (const T number : numbers) {
    if constexpr (std::is_same_v<T, float>) {
      name += cat(" ", shortest(double{number}));
    } else {
      name += cat(" ", number);
    }
  }
  if (has_initializer(*graph_, name)) return name;
  constexpr bool is_float = std::is_same_v<T, float>;
  return stored(is_float ? TensorType::kFloat : TensorType::kInt64, shape, numbers, name);
}

Value OnnxGraph::row(const std::vector<float>& row) {
  return constant("numbers", {static_cast<std::int64_t>(row.size())}, row);
}

Value OnnxGraph::number(float number) {
  return constant("number", {}, std::vector{number});
}

Value OnnxGraph::integers(const std::vector<std::int64_t>& row) {
  return constant("integers", {static_cast<std::int64_t>(row.size())}, row);
}

Value OnnxGraph::integer(std::int64_t number) {
  return constant("integer", {}, std::vector{number});
}

Value OnnxGraph::weights(const Array& array, const std::string& name) {
  if (weight_type_ != WeightType::kF16) return trained(array, name);
  std::vector<std::uint16_t> halves(array.numbers.size());
  std::transform(array.numbers.begin(), array.numbers.end(), halves.begin(), float16_from_float);
  return to(TensorType::kFloat,
            stored(TensorType::kFloat16, array.shape, halves, place(name), kTrained));
}

Value OnnxGraph::table(const std::vector<std::int32_t>& row, const std::string& name) {
  return stored(TensorType::kInt32, {static_cast<std::int64_t>(row.size())}, row, name);
}

OnnxGraph::Rounding OnnxGraph::rounding_of(const Value& value) const {
  if (!ranges_) return {};
  const auto found = ranges_->find(value);
  RETINA_CHECK(found != ranges_->end(), value);
  // Zero must be one of the 256 numbers, so that padding and ReLU stay exact.
  const float least = std::min(found->second.least, 0.0F);
  const float largest = std::max(found->second.largest, 0.0F);
  if (!(largest > least)) return {};
  const float scale = (largest - least) / 255;
  return {.scale = scale, .zero = static_cast<std::uint8_t>(std::lround(-least / scale))};
}

Value OnnxGraph::rounded(const Value& value) {
  const std::string name = value + "/rounded";
  const bool is_known =
      std::find(rounded_values_.begin(), rounded_values_.end(), value) != rounded_values_.end();
  if (!is_known) rounded_values_.push_back(value);
  if (!rounds()) return value;
  if (is_known) return name;
  const Rounding rounding = rounding_of(value);
  const Value scale =
      stored(TensorType::kFloat, {}, std::vector{rounding.scale}, value + "/scale", kTrained);
  const Value zero =
      stored(TensorType::kUint8, {}, std::vector{rounding.zero}, value + "/zero", kTrained);
  const Value bits = node("QuantizeLinear", {value, scale, zero}, {}, value + "/bits");
  return node("DequantizeLinear", {bits, scale, zero}, {}, name);
}

OnnxGraph::RoundedWeights OnnxGraph::rounded_weights(const Array& array, const std::string& name) {
  constexpr float kMost = 63;
  const auto channel_count = static_cast<std::size_t>(array.shape.at(0));
  const std::size_t channel_size = array.numbers.size() / channel_count;  // 0: not known
  RoundedWeights result{.value = place(name), .scales = std::vector<float>(channel_count, 1)};
  std::vector<std::int8_t> bits(array.numbers.size());
  for (std::size_t channel = 0; channel < channel_count; ++channel) {
    const std::span<const float> own(array.numbers.data() + channel * channel_size, channel_size);
    float largest = 0;
    for (const float number : own) largest = std::max(largest, std::abs(number));
    if (largest > 0) result.scales[channel] = largest / kMost;
    const auto first = bits.begin() + static_cast<std::ptrdiff_t>(channel * channel_size);
    std::transform(own.begin(), own.end(), first, [&](float number) {
      return static_cast<std::int8_t>(std::lround(number / result.scales[channel]));
    });
  }
  const Value stored_bits =
      stored(TensorType::kInt8, array.shape, bits, result.value + "/bits", kTrained);
  const Value scale = stored(TensorType::kFloat, {array.shape.at(0)}, result.scales,
                             result.value + "/scale", kTrained);
  node("DequantizeLinear", {stored_bits, scale}, {{"axis", std::int64_t{0}}}, result.value);
  return result;
}

Value OnnxGraph::rounded_bias(const Array& bias, const std::vector<float>& weight_scales,
                              const Value& input, const std::string& name) {
  const float input_scale = rounding_of(input).scale;
  const Value whole = cat(place(name), " on ", input);
  std::vector<float> scales(weight_scales);
  std::vector<std::int32_t> bits(bias.numbers.size());
  for (std::size_t channel = 0; channel < bits.size(); ++channel) {
    scales[channel] *= input_scale;
    const double number = double{bias.numbers[channel]} / double{scales[channel]};
    bits[channel] = static_cast<std::int32_t>(
        std::lround(std::clamp(number, double{std::numeric_limits<std::int32_t>::min()},
                               double{std::numeric_limits<std::int32_t>::max()})));
  }
  const Value stored_bits = stored(TensorType::kInt32, bias.shape, bits, whole + "/bits", kTrained);
  const Value scale = stored(TensorType::kFloat, bias.shape, scales, whole + "/scale", kTrained);
  return node("DequantizeLinear", {stored_bits, scale}, {{"axis", std::int64_t{0}}}, whole);
}

Value OnnxGraph::last_axis(const Value& value, std::int64_t begin, std::int64_t count) {
  return node("Slice", {value, integers({begin}), integers({begin + count}), integers({-1})});
}

Value OnnxGraph::input(const std::string& name, TensorType type, const Shape& shape) {
  set_type(*graph_->add_input(), name, type, shape);
  return name;
}

void OnnxGraph::output(const Value& value, const std::string& name, TensorType type,
                       const Shape& shape) {
  node("Identity", {value}, {}, name);
  set_type(*graph_->add_output(), name, type, shape);
}

Value OnnxGraph::value_of(const Ints& row) {
  return row.known ? integers(*row.known) : row.value;
}

Value OnnxGraph::scalar_of(const Ints& row) {
  if (row.known) return integer(row.known->at(0));
  return node("Squeeze", {row.value, integers({0})});
}

Ints OnnxGraph::combine(const std::string& op, const Ints& a, const Ints& b, Compute compute) {
  if (!a.known || !b.known) return computed(node(op, {value_of(a), value_of(b)}));
  const std::size_t count = std::max(a.known->size(), b.known->size());
  const auto at = [](const Ints& row, std::size_t place) {
    return row.known->size() == 1 ? row.known->front() : row.known->at(place);
  };
  std::vector<std::int64_t> result;
  for (std::size_t place = 0; place < count; ++place) {
    result.push_back(compute(at(a, place), at(b, place)));
  }
  return known(std::move(result));
}

Ints OnnxGraph::plus(const Ints& a, const Ints& b) {
  return combine("Add", a, b, [](std::int64_t x, std::int64_t y) { return x + y; });
}
Ints OnnxGraph::minus(const Ints& a, const Ints& b) {
  return combine("Sub", a, b, [](std::int64_t x, std::int64_t y) { return x - y; });
}
Ints OnnxGraph::times(const Ints& a, const Ints& b) {
  return combine("Mul", a, b, [](std::int64_t x, std::int64_t y) { return x * y; });
}
Ints OnnxGraph::over(const Ints& a, const Ints& b) {
  return combine("Div", a, b, [](std::int64_t x, std::int64_t y) { return x / y; });
}
Ints OnnxGraph::over_large(const Ints& a, const Ints& b) {
  const Ints quotient = over(a, b);
  if (quotient.known) return quotient;
  const Ints rest = minus(a, times(quotient, b));
  const auto one_where = [&](const std::string& op, const Ints& bound) {
    return computed(to(TensorType::kInt64, node(op, {value_of(rest), value_of(bound)})));
  };
  return minus(plus(quotient, one_where("GreaterOrEqual", b)), one_where("Less", known({0})));
}
Ints OnnxGraph::least(const Ints& a, const Ints& b) {
  return combine("Min", a, b, [](std::int64_t x, std::int64_t y) { return std::min(x, y); });
}
Ints OnnxGraph::most(const Ints& a, const Ints& b) {
  return combine("Max", a, b, [](std::int64_t x, std::int64_t y) { return std::max(x, y); });
}

Ints OnnxGraph::joined(const std::vector<Ints>& rows) {
  const bool all_known =
      std::all_of(rows.begin(), rows.end(), [](const Ints& row) { return row.known.has_value(); });
  if (!all_known) {
    std::vector<Value> values;
    for (const Ints& row : rows) values.push_back(value_of(row));
    return computed(node("Concat", values, {{"axis", std::int64_t{0}}}));
  }
  std::vector<std::int64_t> all;
  for (const Ints& row : rows) all.insert(all.end(), row.known->begin(), row.known->end());
  return known(std::move(all));
}

Ints OnnxGraph::element(const Ints& row, std::int64_t place) {
  if (row.known) return known({row.known->at(static_cast<std::size_t>(place))});
  return computed(node("Gather", {row.value, integers({place})}, {{"axis", std::int64_t{0}}}));
}

Value OnnxGraph::to(TensorType type, const Value& value) {
  return node("Cast", {value}, {{"to", static_cast<std::int64_t>(type)}});
}

onnx::ModelProto OnnxGraph::finish(const std::string& name, const std::string& description,
                                   const OnnxMetadata& metadata) const {
  onnx::ModelProto model;
  model.set_ir_version(kIrVersion);
  model.set_producer_name("retina-convert");
  model.set_doc_string(description);
  for (const auto& [key, value] : metadata) {
    onnx::StringStringEntryProto& entry = *model.add_metadata_props();
    entry.set_key(key);
    entry.set_value(value);
  }
  model.add_opset_import()->set_version(kOpset);
  *model.mutable_graph() = *graph_;
  model.mutable_graph()->set_name(name);
  return model;
}

}  // namespace retina
