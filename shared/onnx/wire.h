// Protobuf's wire format (protobuf.dev, "Encoding") without protobuf: the fields of one message in
// order, as views into its bytes. Nothing is allocated, whatever the bytes claim, so this is what
// looks at files from elsewhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace retina {

// How a field begins: its tag, and its number or its length.
struct WireStart {
  std::uint32_t number = 0;
  bool has_length = false;         // a string or message follows
  std::uint64_t varint = 0;        // of a varint, else 0
  std::uint64_t start_bytes = 0;   // of the tag and what stands before the content
  std::uint64_t length_bytes = 0;  // of the content
  std::uint64_t size_bytes = 0;    // of both
};
// Nothing for what is not a field (groups, too). The content need not be there.
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

  // The next field; none at the end and before bytes that are not a field.
  std::optional<WireField> next();
  // What was not read yet.
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

// How a string or message of `length_bytes` begins in the shortest form, which is what writers
// give.
std::string wire_prefix(std::uint32_t number, std::uint64_t length_bytes);

}  // namespace retina
