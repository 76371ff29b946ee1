#include "shared/onnx/wire.h"

namespace retina {
namespace {

enum WireType { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

// Takes a number of at most 64 bits off the front of `bytes`.
std::optional<std::uint64_t> take_varint(std::string_view& bytes) {
  constexpr std::size_t kMostBytes = 10;
  std::uint64_t number = 0;
  for (std::size_t place = 0; place < bytes.size() && place < kMostBytes; ++place) {
    const auto byte = static_cast<std::uint8_t>(bytes[place]);
    if (place == kMostBytes - 1 && byte > 1) return std::nullopt;
    number |= std::uint64_t{byte & 0x7FU} << (7 * place);
    if ((byte & 0x80U) != 0) continue;
    bytes.remove_prefix(place + 1);
    return number;
  }
  return std::nullopt;
}

std::string varint(std::uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>((number & 0x7F) | 0x80);
  return bytes += static_cast<char>(number);
}

}  // namespace

std::optional<WireField> WireReader::next() {
  std::string_view rest = rest_;
  const std::optional<std::uint64_t> tag = take_varint(rest);
  if (!tag || *tag >> 3 == 0 || *tag >> 32 != 0) return std::nullopt;
  const auto type = static_cast<WireType>(*tag & 7);
  WireField field{.number = static_cast<std::uint32_t>(*tag >> 3), .has_length = type == kLength};
  std::uint64_t content_bytes = type == kFixed64 ? 8 : type == kFixed32 ? 4 : 0;
  if (type == kVarint || type == kLength) {
    const std::optional<std::uint64_t> number = take_varint(rest);
    if (!number) return std::nullopt;
    (type == kLength ? content_bytes : field.varint) = *number;
  } else if (content_bytes == 0) {
    return std::nullopt;
  }
  if (content_bytes > rest.size()) return std::nullopt;
  field.bytes = rest.substr(0, static_cast<std::size_t>(content_bytes));
  rest.remove_prefix(field.bytes.size());
  field.encoded = rest_.substr(0, rest_.size() - rest.size());
  rest_ = rest;
  return field;
}

std::string_view first_field(std::string_view message, std::uint32_t number) {
  WireReader reader(message);
  while (const auto field = reader.next()) {
    if (field->number == number) return field->bytes;
  }
  return {};
}

std::string wire_prefix(std::uint32_t number, std::uint64_t length_bytes) {
  return varint(std::uint64_t{number} << 3 | kLength) + varint(length_bytes);
}

}  // namespace retina
