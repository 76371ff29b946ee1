// An ONNX graph under construction: nodes in the order of computing, tensors under readable names.
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

// f32 numbers of a network, row-major; no numbers if they are not known (OnnxGraph).
struct Array {
  std::vector<std::int64_t> shape{};
  std::vector<float> numbers{};
};

// ONNX's element types (TensorProto.DataType); part of that format.
enum class TensorType { kFloat = 1, kUint8 = 2, kInt8 = 3, kInt32 = 6, kInt64 = 7, kFloat16 = 10 };

// The least and the largest of a tensor's numbers.
struct ValueRange {
  float least = 0, largest = 0;
};
// Ranges, keyed by tensor's name.
using ValueRanges = std::map<std::string, ValueRange>;

// The name of a tensor in the graph.
using Value = std::string;

// Entries of ModelProto.metadata_props: keys and values.
using OnnxMetadata = std::vector<std::pair<std::string, std::string>>;

struct Attribute {
  std::string name;
  std::variant<std::int64_t, float, std::string, std::vector<std::int64_t>> value;
};

// A row of integers of the graph, i64 [n]: sizes and places. If all are known while the graph is
// written, so is everything computed from them, and no node is needed.
struct Ints {
  std::optional<std::vector<std::int64_t>> known{};
  Value value{};  // if they are not known
};

class OnnxGraph {
 public:
  // Begins a graph. `ranges`: for int8, of the values that `rounded` is called with. Unset: neither
  // they nor the numbers of the weights are known; tensors are stored with their types and shapes
  // alone.
  OnnxGraph(WeightType weight_type, std::optional<ValueRanges> ranges);
  ~OnnxGraph();

  // Makes the names of later nodes begin with "SCOPE/": "body/layer1.0".
  void enter(const std::string& scope) { scope_ = scope; }
  std::string place(const std::string& name) const { return scope_ + "/" + name; }

  // Adds a node and returns its only output, named "SCOPE/OP_n", or exactly `name`. A given name
  // uses up no number, so that the other nodes have the same names in f32 and int8, and ranges find
  // their values.
  Value node(const std::string& op, const std::vector<Value>& inputs,
             const std::vector<Attribute>& attributes = {}, const std::string& name = "");
  // Adds a node with `output_count` outputs.
  std::vector<Value> nodes(const std::string& op, const std::vector<Value>& inputs,
                           std::size_t output_count, const std::vector<Attribute>& attributes);

  // Add constants. Equal rows of integers and equal numbers are stored once.
  Value numbers(const Array& array, const std::string& name);
  // Adds a trained tensor of the network, [SCOPE/]name.
  Value trained(const Array& array, const std::string& name);
  Value row(const std::vector<float>& numbers);                                // [n]
  Value number(float number);                                                  // []
  Value integer(std::int64_t number);                                          // []
  Value integers(const std::vector<std::int64_t>& row);                        // [n]
  Value table(const std::vector<std::int32_t>& row, const std::string& name);  // i32 [n]
  // Adds a layer's weights in the form of weight_type, [SCOPE/]name; returns them as f32.
  Value weights(const Array& array, const std::string& name);

  // Returns the value rounded to 8 bits with int8 (u8, a scale and a zero of its own), else the
  // value itself. Throws Error{kInternal} if its range is missing.
  Value rounded(const Value& value);
  // Returns the values that it was called with, in order: those whose ranges int8 needs.
  const std::vector<Value>& rounded_values() const { return rounded_values_; }
  bool rounds() const { return weight_type_ == WeightType::kInt8; }

  // A convolution's weights as signed 7 bit numbers with a scale for each output channel: two of
  // their products with u8 fit 16 bits, in which CPUs without VNNI add them.
  struct RoundedWeights {
    Value value;                // f32 for its consumer
    std::vector<float> scales;  // [out]
  };
  RoundedWeights rounded_weights(const Array& array, const std::string& name);
  // Adds a convolution's bias as 32 bit numbers, in units of the products of `input`, which has
  // been rounded, and the weights.
  Value rounded_bias(const Array& bias, const std::vector<float>& weight_scales, const Value& input,
                     const std::string& name);

  // Returns `count` elements of the last axis from `begin` on.
  Value last_axis(const Value& value, std::int64_t begin, std::int64_t count);

  // Declare inputs and outputs of the whole graph; a word in the shape is a free size of that name,
  // a number a fixed one.
  using Shape = std::vector<std::string>;
  Value input(const std::string& name, TensorType type, const Shape& shape);
  void output(const Value& value, const std::string& name, TensorType type, const Shape& shape);

  // Make integers that are known, or that the graph computes.
  Ints known(std::vector<std::int64_t> row) const { return {.known = std::move(row)}; }
  Ints computed(Value value) const { return {.value = std::move(value)}; }
  // Returns the row as i64 [n] in the graph.
  Value value_of(const Ints& row);
  // Returns a row of one as i64 [].
  Value scalar_of(const Ints& row);
  // Compute element by element; a row of one goes with every element of the other. Quotients are
  // for numbers that are not negative.
  Ints plus(const Ints& a, const Ints& b);
  Ints minus(const Ints& a, const Ints& b);
  Ints times(const Ints& a, const Ints& b);
  Ints over(const Ints& a, const Ints& b);
  // Divides if `a` may be 2^23 or more, with a quotient below 2^23: OpenVINO divides integers as
  // f32, and is then one off.
  Ints over_large(const Ints& a, const Ints& b);
  Ints least(const Ints& a, const Ints& b);
  Ints most(const Ints& a, const Ints& b);
  Ints joined(const std::vector<Ints>& rows);
  Ints element(const Ints& row, std::int64_t place);

  Value to(TensorType type, const Value& value);

  // Returns the whole model.
  onnx::ModelProto finish(const std::string& name, const std::string& description,
                          const OnnxMetadata& metadata) const;

 private:
  std::string fresh_name(const std::string& op);
  struct Rounding {
    float scale = 1;
    std::uint8_t zero = 0;
  };
  Rounding rounding_of(const Value& value) const;
  template <class T>
  Value stored(TensorType type, const std::vector<std::int64_t>& shape,
               const std::vector<T>& numbers, const std::string& name, bool is_trained = false);
  template <class T>  // float or std::int64_t
  Value constant(const char* kind, const std::vector<std::int64_t>& shape,
                 const std::vector<T>& numbers);
  using Compute = std::int64_t (*)(std::int64_t, std::int64_t);
  Ints combine(const std::string& op, const Ints& a, const Ints& b, Compute compute);

  std::unique_ptr<onnx::GraphProto> graph_;
  WeightType weight_type_;
  std::optional<ValueRanges> ranges_;
  std::vector<Value> rounded_values_{};
  std::string scope_{};
  int node_count_ = 0;
};

}  // namespace retina
