// Reads a Python pickle (protocols 2 to 5) as torch.save writes it, into plain data. First stage of
// retina-convert --import, on untrusted bytes: it calls nothing, accepts only the names of
// its allow-list, and uses memory in proportion to the pickle's length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace retina {

// Element types of storages that can be imported.
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
  kFloat,    // without its value: no tensor depends on it
  kBigInt,   // text: little-endian two's complement, more than 8 bytes
  kText,     // text, str or bytes
  kTuple,    // items
  kList,     // items
  kDict,     // items: key, value, key, value ... in the file's order
  kGlobal,   // integer: place in the allow-list
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

// Holds all values of one pickle. They refer to each other by place, possibly in cycles: walk to a
// known depth only.
struct PickleDocument {
  std::vector<PickleValue> values{};
  PickleRef root = 0;
  std::size_t size_bytes = 0;  // length of the pickle, STOP included

  const PickleValue& at(PickleRef ref) const { return values[ref]; }
};

// Reads the pickle at the start of `bytes`; bytes after its end are left to the caller. Texts of
// the result point into `bytes`. Memory: at most 256 bytes for each byte of the pickle, whatever it
// says. Throws Error{kData} beginning with `subject`: cut short, an opcode or a name that is not
// allowed, more than 2,000,000 values, a stack that does not fit.
PickleDocument read_pickle(std::string_view bytes, const std::string& subject);

}  // namespace retina
