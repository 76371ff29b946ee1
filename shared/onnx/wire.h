// Protobuf's wire format (protobuf.dev, "Encoding") without protobuf: the fields of one message in
// order, as views into its bytes. Nothing is allocated, whatever the bytes claim, so this reads
// untrusted files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace retina {

// Start of a field: its tag, and its number or its length.
struct WireStart {
  std::uint32_t number = 0;
  bool has_length = false;         // a string or message follows
  std::uint64_t varint = 0;        // of a varint, else 0
  std::uint64_t start_bytes = 0;   // size of the tag and the number before the content
  std::uint64_t length_bytes = 0;  // of the content
  std::uint64_t size_bytes = 0;    // of both
};
// Parses the start of a field; returns nothing for bytes that are not a field (groups, too). The
// content need not be there.
std::optional<WireStart> wire_start(std::string_view bytes);

struct WireField {
  std::uint32_t number = 0;
  bool has_length = false;     // a string or message
  std::uint64_t varint = 0;    // of a varint, else 0
  std::string_view bytes{};    // the content
  std::string_view encoded{};  // the whole field
};

class WireReader {
 public:
  explicit WireReader(std::string_view message) : rest_(message) {}

  // Returns the next field; none at the end and before bytes that are not a field.
  std::optional<WireField> next();
  // Returns the bytes that were not read yet.
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

// Return the start of a string or message of `length_bytes` in its shortest form, which writers
// use; and its size with the content.
std::string wire_prefix(std::uint32_t number, std::uint64_t length_bytes);
std::uint64_t wire_bytes(std::uint32_t number, std::uint64_t length_bytes);

}  // namespace retina

// The fields of onnx.proto's messages, by their numbers. Part of ONNX.
namespace retina::onnx_field {

inline constexpr std::uint32_t kModelGraph = 7, kModelMetadata = 14;
inline constexpr std::uint32_t kEntryKey = 1, kEntryValue = 2;
inline constexpr std::uint32_t kGraphNode = 1, kGraphName = 2, kGraphInitializer = 5,
                               kGraphInput = 11, kGraphOutput = 12;
inline constexpr std::uint32_t kNodeInput = 1, kNodeOutput = 2, kNodeName = 3, kNodeOperator = 4,
                               kNodeAttribute = 5, kNodeDomain = 7;
inline constexpr std::uint32_t kAttributeName = 1, kAttributeFloat = 2, kAttributeInt = 3,
                               kAttributeString = 4, kAttributeInts = 8, kAttributeType = 20;
inline constexpr std::uint32_t kTensorDims = 1, kTensorType = 2, kTensorName = 8, kTensorRaw = 9;
inline constexpr std::uint32_t kValueName = 1;

}  // namespace retina::onnx_field
