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

std::optional<WireStart> wire_start(std::string_view bytes) {
  constexpr std::uint64_t kMostLength = std::uint64_t{1} << 62;  // sums do not overflow
  std::string_view rest = bytes;
  const std::optional<std::uint64_t> tag = take_varint(rest);
  if (!tag || *tag >> 3 == 0 || *tag >> 32 != 0) return std::nullopt;
  WireStart start{.number = static_cast<std::uint32_t>(*tag >> 3)};
  switch (*tag & 7) {
    case kFixed64:
      start.length_bytes = 8;
      break;
    case kFixed32:
      start.length_bytes = 4;
      break;
    case kVarint:
    case kLength: {
      const std::optional<std::uint64_t> number = take_varint(rest);
      start.has_length = (*tag & 7) == kLength;
      if (!number || (start.has_length && *number > kMostLength)) return std::nullopt;
      (start.has_length ? start.length_bytes : start.varint) = *number;
      break;
    }
    default:
      return std::nullopt;
  }
  start.start_bytes = bytes.size() - rest.size();
  start.size_bytes = start.start_bytes + start.length_bytes;
  return start;
}

std::optional<WireField> WireReader::next() {
  const std::optional<WireStart> start = wire_start(rest_);
  if (!start || start->size_bytes > rest_.size()) return std::nullopt;
  const std::string_view encoded = rest_.substr(0, static_cast<std::size_t>(start->size_bytes));
  rest_.remove_prefix(encoded.size());
  return WireField{.number = start->number,
                   .has_length = start->has_length,
                   .varint = start->varint,
                   .bytes = encoded.substr(static_cast<std::size_t>(start->start_bytes)),
                   .encoded = encoded};
}

std::string wire_prefix(std::uint32_t number, std::uint64_t length_bytes) {
  return varint(std::uint64_t{number} << 3 | kLength) + varint(length_bytes);
}

std::uint64_t wire_bytes(std::uint32_t number, std::uint64_t length_bytes) {
  return wire_prefix(number, length_bytes).size() + length_bytes;
}

}  // namespace retina
