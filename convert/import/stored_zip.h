// The directory of a zip whose files are stored, not compressed, as torch.save makes it (PKWARE's
// APPNOTE.TXT 4.3, zip64 included). Every offset and length is checked before use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace retina {

class StoredZip {
 public:
  static bool looks_like_one(std::string_view bytes) { return bytes.starts_with("PK\3\4"); }

  // `bytes` must outlive this. Throws Error{kData} beginning with `subject`: no closing directory
  // (cut short), anything outside of the file, compressed or encrypted files, a name twice.
  StoredZip(std::string_view bytes, std::string subject);

  bool has(std::string_view name) const { return entries_.find(name) != entries_.end(); }

  // A file's bytes, checked against its CRC-32 (absent when torch was told not to compute them).
  // Throws Error{kData}: missing, damaged.
  std::string_view read(std::string_view name) const;

  // The folder that holds `file` at the archive's top, e.g. "archive/"; throws when there is none.
  std::string folder_of(std::string_view file) const;

 private:
  struct Entry {
    std::string_view content{};
    std::uint32_t crc32 = 0;
  };
  [[noreturn]] void fail(const std::string& problem) const;
  std::uint64_t number(std::uint64_t offset, std::size_t size_bytes) const;
  std::string_view slice(std::uint64_t offset, std::uint64_t size_bytes) const;
  std::uint64_t end_record() const;
  void read_directory();
  std::uint64_t add_entry(std::uint64_t offset);

  std::string_view bytes_;
  std::string subject_;
  std::map<std::string_view, Entry> entries_{};
};

// Of ITU-T V.42, as zip uses it.
std::uint32_t crc32(std::string_view bytes);

}  // namespace retina
