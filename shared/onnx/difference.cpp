#include "shared/onnx/difference.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "shared/base/cat.h"
#include "shared/base/printable.h"

namespace retina {

using namespace onnx_field;

namespace {

constexpr std::size_t kListed = 4;

// Returns all fields of that number as "a", "b", ...
std::string listed(std::string_view message, std::uint32_t number) {
  std::string text;
  std::size_t count = 0;
  WireReader reader(message);
  while (const auto field = reader.next()) {
    if (field->number != number || ++count > kListed) continue;
    text += cat(count == 1 ? "" : ", ", quoted_name(field->bytes));
  }
  return cat(count == 0 ? "none" : text, count > kListed ? cat(", ... (", count, ")") : "");
}

// Returns an attribute's value.
std::string value_of_attribute(std::string_view attribute) {
  std::string numbers;
  std::size_t count = 0;
  WireReader reader(attribute);
  while (const auto field = reader.next()) {
    switch (field->number) {
      case kAttributeInt:
        return cat(static_cast<std::int64_t>(field->varint));
      case kAttributeString:
        return quoted_name(field->bytes);
      case kAttributeFloat: {
        float number = 0;
        if (field->bytes.size() != sizeof number) return "a value of another kind";
        std::memcpy(&number, field->bytes.data(), sizeof number);
        return cat(number);
      }
      case kAttributeInts:
        if (++count <= 2 * kListed) {
          numbers += cat(count == 1 ? "" : " ", static_cast<std::int64_t>(field->varint));
        }
        break;
      case kAttributeName:
      case kAttributeType:
        break;
      default:
        return "a value of another kind";
    }
  }
  return cat("[", numbers, count > 2 * kListed ? " ..." : "", "]");
}

std::vector<std::string_view> attributes_of(std::string_view node) {
  constexpr std::size_t kMost = 100;  // far above any operator's: a file may hold millions
  std::vector<std::string_view> found;
  WireReader reader(node);
  while (const auto field = reader.next()) {
    if (field->number == kNodeAttribute && found.size() < kMost) found.push_back(field->bytes);
  }
  return found;
}

std::string attribute_difference(std::string_view got, std::string_view want) {
  const auto have = attributes_of(got), wanted = attributes_of(want);
  for (std::size_t place = 0; place < std::max(have.size(), wanted.size()); ++place) {
    if (place == wanted.size()) {
      return cat("has the attribute ", quoted_name(text_of(have[place], kAttributeName)));
    }
    const std::string_view name = text_of(wanted[place], kAttributeName);
    if (place == have.size()) return cat("has no attribute ", name);
    if (have[place] == wanted[place]) continue;
    const std::string_view other = text_of(have[place], kAttributeName);
    if (other != name) return cat("has the attribute ", quoted_name(other), ", want ", name);
    return cat("attribute ", name, ": got ", value_of_attribute(have[place]), ", want ",
               value_of_attribute(wanted[place]));
  }
  return "has a field that retina-convert does not write";
}

std::string type_name(std::uint64_t type) {
  using enum TensorType;
  constexpr std::pair<TensorType, const char*> kNames[] = {{kFloat, "f32"}, {kUint8, "u8"},
                                                           {kInt8, "i8"},   {kInt32, "i32"},
                                                           {kInt64, "i64"}, {kFloat16, "f16"}};
  for (const auto& [known, name] : kNames) {
    if (static_cast<std::uint64_t>(known) == type) return name;
  }
  return cat("type ", type);
}

std::string type_and_shape(std::string_view tensor) {
  std::string type = "no type", shape;
  WireReader reader(tensor);
  std::size_t count = 0;
  while (const auto field = reader.next()) {
    if (field->number == kTensorType) type = type_name(field->varint);
    if (field->number == kTensorDims && ++count <= 2 * kListed) {
      shape += cat(count == 1 ? "" : ", ", static_cast<std::int64_t>(field->varint));
    }
  }
  return cat(type, " [", shape, "]");
}

}  // namespace

std::string quoted_name(std::string_view name) {
  return cat("\"", escaped(name, 60), "\"");
}

std::string_view text_of(std::string_view message, std::uint32_t number) {
  WireReader reader(message);
  while (const auto field = reader.next()) {
    if (field->number == number) return field->bytes;
  }
  return {};
}

std::string node_difference(std::size_t place, std::string_view got, std::string_view want) {
  const std::string_view wanted_name = text_of(want, kNodeName);
  const auto differ = [&](std::uint32_t number) {
    return text_of(got, number) != text_of(want, number);
  };
  if (differ(kNodeOperator) || differ(kNodeDomain)) {
    const std::string_view domain = text_of(got, kNodeDomain);
    return cat("node ", place + 1, " is ",
               escaped(domain.empty() ? text_of(got, kNodeOperator)
                                      : cat(domain, ".", text_of(got, kNodeOperator)),
                       60),
               ", want ", text_of(want, kNodeOperator), " ", quoted_name(wanted_name));
  }
  if (differ(kNodeName)) {
    return cat("node ", place + 1, " is called ", quoted_name(text_of(got, kNodeName)), ", want ",
               quoted_name(wanted_name));
  }
  const std::string node = cat("node ", quoted_name(wanted_name), ": ");
  for (const auto& [number, what] : {std::pair{kNodeInput, "inputs"}, {kNodeOutput, "outputs"}}) {
    const std::string have = listed(got, number), wanted = listed(want, number);
    if (have != wanted) return cat(node, what, ": got ", have, ", want ", wanted);
  }
  return node + attribute_difference(got, want);
}

std::string tensor_difference(std::size_t place, std::string_view got, const WantedTensor& want) {
  if (text_of(got, kTensorName) != want.name) {
    return cat("tensor ", place + 1, " is called ", quoted_name(text_of(got, kTensorName)),
               ", want ", quoted_name(want.name));
  }
  const std::string tensor = cat("tensor ", quoted_name(want.name), ": ");
  const std::string have = type_and_shape(got), wanted = type_and_shape(want.begin);
  if (have != wanted) return cat(tensor, "got ", have, ", want ", wanted);
  WireReader reader(got);
  while (const auto field = reader.next()) {
    if (field->number == kTensorRaw && field->bytes.size() != want.number_bytes) {
      return cat(tensor, "has ", field->bytes.size(), " bytes of numbers, want ",
                 want.number_bytes);
    }
    if (field->number != kTensorDims && field->number != kTensorType &&
        field->number != kTensorName && field->number != kTensorRaw) {
      return cat(tensor, "keeps its numbers elsewhere (field ", field->number, ")");
    }
  }
  return tensor + "is encoded differently";
}

std::string model_field_name(std::uint32_t number) {
  constexpr std::pair<std::uint32_t, const char*> kNames[] = {
      {1, "ir_version"},      {2, "producer_name"}, {6, "doc_string"},
      {kModelGraph, "graph"}, {8, "opset_import"},  {kModelMetadata, "metadata_props"}};
  for (const auto& [known, name] : kNames) {
    if (known == number) return name;
  }
  return cat("field ", number);
}

}  // namespace retina
