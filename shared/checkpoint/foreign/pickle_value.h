// What a pickle of torch.save can hold, as plain data: the reader (pickle_reader.h) builds these
// and never calls anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace retina {

// Element types of storages that an import takes.
enum class ElementKind : std::uint8_t {
  kFloat32,
  kFloat64,
  kFloat16,
  kBfloat16,
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kUint8,
  kBool,
};

std::size_t element_bytes(ElementKind kind);

enum class PickleKind : std::uint8_t {
  kNone,
  kBool,     // integer
  kInt,      // integer
  kFloat,    // its value is dropped: no tensor depends on one
  kBigInt,   // text: little-endian two's complement, more than 8 bytes
  kText,     // text, str or bytes
  kTuple,    // items
  kList,     // items
  kDict,     // items: key, value, key, value ... in the file's order
  kGlobal,   // integer: place in the allow-list (pickle_globals.h)
  kStorage,  // text: key; integer: elements; element
  kTensor,   // items: storage, offset, sizes, strides, as the file gives them
  kShell,    // a Parameter whose tensor comes with its state
  kInert,    // anything allowed that no tensor depends on
};

// A place in PickleDocument::values.
using PickleRef = std::uint32_t;

struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  ElementKind element = ElementKind::kFloat32;
  std::int64_t integer = 0;
  std::string_view text{};  // into the bytes that were read
  std::vector<PickleRef> items{};
};

// All values of one pickle. They refer to each other by place, in cycles too: walk a known depth.
struct PickleDocument {
  std::vector<PickleValue> values{};
  PickleRef root = 0;
  std::size_t size_bytes = 0;  // of the pickle, STOP included

  const PickleValue& at(PickleRef ref) const { return values[ref]; }
};

}  // namespace retina
