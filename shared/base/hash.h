// xxh3, the 64-bit hash of records, shards, checkpoints and configurations, and the checksum of a
// foreign format. They find damage, not malice: neither is a cryptographic hash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace retina {

std::uint64_t xxh3(const void* data, std::size_t size_bytes);
inline std::uint64_t xxh3(std::string_view bytes) {
  return xxh3(bytes.data(), bytes.size());
}

// Computes the same hash over bytes that arrive in pieces.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;
  void update(const void* data, std::size_t size_bytes);
  std::uint64_t digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Returns the hash of a file's whole content. Throws as read_file.
std::uint64_t xxh3_file(const std::string& path);

// Returns the CRC-32C (RFC 3720, appendix B.4).
std::uint32_t crc32c(std::string_view bytes);

// Converts to 16 lower-case hexadecimal digits, and back (throws kData naming `what`).
std::string hex64(std::uint64_t value);
std::uint64_t parse_hex64(std::string_view text, const std::string& what);

}  // namespace retina
