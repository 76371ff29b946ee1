// An ONNX graph while it is written: nodes in the order of computing, tensors under readable names.
// Operators are those of opset 17 (onnx.ai, "ONNX Operators"). No LibTorch: its headers carry
// another protobuf.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "shared/onnx/inference_header.h"

namespace onnx {
class GraphProto;
class ModelProto;
}  // namespace onnx

namespace retina {

// f32 numbers of a network, row-major; none of them where they are not known (OnnxGraph).
struct Array {
  std::vector<std::int64_t> shape{};
  std::vector<float> numbers{};
};

// What the numbers of a stored tensor may be. A graph that is built to be compared with a file
// (onnx_check.h) knows all but those of the trained weights.
enum class NumberRule {
  kEqual,      // those that are stored
  kFinite,     // f32 or f16
  kPositive,   // finite f32 above 0: scales
  kSevenBits,  // i8 in -63..63
  kAny,
};

// ONNX's element types (TensorProto.DataType); part of that format.
enum class TensorType { kFloat = 1, kUint8 = 2, kInt8 = 3, kInt32 = 6, kInt64 = 7, kFloat16 = 10 };

// The least and the largest of a tensor's numbers.
struct ValueRange {
  float least = 0, largest = 0;
};
// By tensor's name.
using ValueRanges = std::map<std::string, ValueRange>;

// The name of a tensor in the graph.
using Value = std::string;

// ModelProto.metadata_props: keys and values.
using OnnxMetadata = std::vector<std::pair<std::string, std::string>>;

struct Attribute {
  std::string name;
  std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>> value;
};

// A row of integers of the graph, i64 [n]: sizes and places. Where all are known while the graph is
// written, so is whatever is computed of them, and no node is needed.
struct Ints {
  std::optional<std::vector<std::int64_t>> known{};
  Value value{};  // where they are not known
};

class OnnxGraph {
 public:
  // `ranges`: for int8, of the values that `rounded` is called with. Unset: neither they nor the
  // numbers of the weights are known; tensors are stored with their types and shapes alone.
  OnnxGraph(WeightType weight_type, std::optional<ValueRanges> ranges);
  ~OnnxGraph();

  // Names of what follows begin with "SCOPE/": "body/layer1.0".
  void enter(const std::string& scope) { scope_ = scope; }
  std::string place(const std::string& name) const { return scope_ + "/" + name; }

  // Adds a node and returns its only output, named "SCOPE/OP_n", or `name` as it is. A name takes
  // no number: those of the other nodes are the same in f32 and int8, so that ranges find their
  // values.
  Value node(const std::string& op, const std::vector<Value>& inputs,
             const std::vector<Attribute>& attributes = {}, const std::string& name = "");
  // The same with `output_count` outputs.
  std::vector<Value> nodes(const std::string& op, const std::vector<Value>& inputs,
                           std::size_t output_count, const std::vector<Attribute>& attributes);

  // Constants. Equal rows of integers and equal numbers are stored once.
  Value numbers(const Array& array, const std::string& name);
  // Of the network, [SCOPE/]name.
  Value trained(const Array& array, const std::string& name);
  Value row(const std::vector<float>& numbers);                                // [n]
  Value number(float number);                                                  // []
  Value integer(std::int64_t number);                                          // []
  Value integers(const std::vector<std::int64_t>& row);                        // [n]
  Value table(const std::vector<std::int32_t>& row, const std::string& name);  // i32 [n]
  // A layer's weights as weight_type has them, [SCOPE/]name; f32 where they are used.
  Value weights(const Array& array, const std::string& name);

  // With int8 the value as 8 bits make it (u8, a scale and a zero of its own), else the value
  // itself. Throws Error{kInternal} when its range is missing.
  Value rounded(const Value& value);
  // What it was called with, in order: the values whose ranges int8 needs.
  const std::vector<Value>& rounded_values() const { return rounded_values_; }
  bool rounds() const { return weight_type_ == WeightType::kInt8; }

  // A convolution's weights as signed 7 bit numbers with a scale for each output channel: two of
  // their products with u8 fit 16 bits, in which CPUs without VNNI add them.
  struct RoundedWeights {
    Value value;                // f32 where it is used
    std::vector<float> scales;  // [out]
  };
  RoundedWeights rounded_weights(const Array& array, const std::string& name);
  // Its bias as 32 bit numbers, in units of the products of `input`, which has been rounded, and
  // the weights.
  Value rounded_bias(const Array& bias, const std::vector<float>& weight_scales, const Value& input,
                     const std::string& name);

  // `count` elements of the last axis from `begin` on.
  Value last_axis(const Value& value, std::int64_t begin, std::int64_t count);

  // Inputs and outputs of the whole graph; a word of the shape is a free size of that name, a
  // number a fixed one.
  using Shape = std::vector<std::string>;
  Value input(const std::string& name, TensorType type, const Shape& shape);
  void output(const Value& value, const std::string& name, TensorType type, const Shape& shape);

  // Integers that the graph computes, or that are known.
  Ints known(std::vector<std::int64_t> row) const { return {.known = std::move(row)}; }
  Ints computed(Value value) const { return {.value = std::move(value)}; }
  // i64 [n] in the graph.
  Value value_of(const Ints& row);
  // i64 [] of a row of one.
  Value scalar_of(const Ints& row);
  // Element by element; a row of one goes with every element of the other. Quotients of numbers
  // that are not negative.
  Ints plus(const Ints& a, const Ints& b);
  Ints minus(const Ints& a, const Ints& b);
  Ints times(const Ints& a, const Ints& b);
  Ints over(const Ints& a, const Ints& b);
  // The same where `a` may be 2^23 or more, with a quotient below 2^23: OpenVINO divides integers
  // as f32, and is then one off.
  Ints over_large(const Ints& a, const Ints& b);
  Ints least(const Ints& a, const Ints& b);
  Ints most(const Ints& a, const Ints& b);
  Ints joined(const std::vector<Ints>& rows);
  Ints element(const Ints& row, std::int64_t place);

  Value to(TensorType type, const Value& value);

  // The whole model.
  onnx::ModelProto finish(const std::string& name, const std::string& description,
                          const OnnxMetadata& metadata) const;
  // What the numbers of each stored tensor may be, in the model's order.
  const std::vector<NumberRule>& number_rules() const { return number_rules_; }

 private:
  std::string fresh_name(const std::string& op);
  struct Rounding {
    float scale = 1;
    std::uint8_t zero = 0;
  };
  Rounding rounding_of(const Value& value) const;
  template <class T>
  Value stored(TensorType type, const std::vector<std::int64_t>& shape,
               const std::vector<T>& numbers, const std::string& name,
               NumberRule rule = NumberRule::kEqual);
  template <class T>  // float or std::int64_t
  Value constant(const char* kind, const std::vector<std::int64_t>& shape,
                 const std::vector<T>& numbers);
  using Compute = std::int64_t (*)(std::int64_t, std::int64_t);
  Ints combine(const std::string& op, const Ints& a, const Ints& b, Compute compute);

  std::unique_ptr<onnx::GraphProto> graph_;
  WeightType weight_type_;
  std::optional<ValueRanges> ranges_;
  std::vector<NumberRule> number_rules_{};
  std::vector<Value> rounded_values_{};
  std::string scope_{};
  int node_count_ = 0;
};

}  // namespace retina
