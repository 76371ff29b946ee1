// Protobuf's wire format (protobuf.dev, "Encoding") without protobuf: the fields of one message in
// order, as views into its bytes. Nothing is allocated, whatever the bytes claim, so this reads
// untrusted files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace retina {

struct WireField {
  std::uint32_t number = 0;
  bool has_length = false;     // a string or message
  std::uint64_t varint = 0;    // a varint's value, else 0
  std::string_view bytes{};    // the content
  std::string_view encoded{};  // the whole field
};

class WireReader {
 public:
  explicit WireReader(std::string_view message) : rest_(message) {}

  // Returns the next field; none at the end and before bytes that are not a field (groups, too).
  std::optional<WireField> next();

 private:
  std::string_view rest_;
};

// Returns the content of the first field of that number; empty if there is none.
std::string_view first_field(std::string_view message, std::uint32_t number);

// Returns the start of a string or message of `length_bytes` in its shortest form, which writers
// use.
std::string wire_prefix(std::uint32_t number, std::uint64_t length_bytes);

}  // namespace retina

// The fields of onnx.proto's messages, by their numbers. Part of ONNX.
namespace retina::onnx_field {

inline constexpr std::uint32_t kModelGraph = 7, kModelMetadata = 14;
inline constexpr std::uint32_t kEntryKey = 1, kEntryValue = 2;
inline constexpr std::uint32_t kGraphNode = 1, kGraphName = 2, kGraphInitializer = 5;
inline constexpr std::uint32_t kNodeName = 3, kValueName = 1;
inline constexpr std::uint32_t kTensorDims = 1, kTensorType = 2, kTensorName = 8, kTensorRaw = 9;

}  // namespace retina::onnx_field
