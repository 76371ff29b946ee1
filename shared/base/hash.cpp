#include "shared/base/hash.h"

#include <array>
#include <boost/crc.hpp>
#include <charconv>
#include <cstdio>

#include "shared/base/error.h"
#include "shared/base/file.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace retina {

std::uint64_t xxh3(const void* data, std::size_t size_bytes) {
  return XXH3_64bits(data, size_bytes);
}

struct Hasher::State {
  XXH3_state_t xxh;
};

Hasher::Hasher() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(&state_->xxh);
}
Hasher::~Hasher() = default;

void Hasher::update(const void* data, std::size_t size_bytes) {
  XXH3_64bits_update(&state_->xxh, data, size_bytes);
}

std::uint64_t Hasher::digest() const {
  return XXH3_64bits_digest(&state_->xxh);
}

std::uint64_t xxh3_file(const std::string& path) {
  Hasher hasher;
  read_pieces(path, [&](std::string_view piece) { hasher.update(piece.data(), piece.size()); });
  return hasher.digest();
}

std::uint32_t crc32c(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

std::string hex64(std::uint64_t value) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value));
  return text.data();
}

std::uint64_t parse_hex64(std::string_view text, const std::string& what) {
  std::uint64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.size() != 16 || result.ec != std::errc() || result.ptr != text.data() + text.size()) {
    throw Error(ErrorKind::kData,
                cat(what, ": bad hash (got \"", text, "\", want 16 hexadecimal digits)"));
  }
  return value;
}

}  // namespace retina
