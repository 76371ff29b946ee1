// The directory of a zip whose files are stored, not compressed, as PyTorch makes it (PKWARE's
// APPNOTE.TXT 4.3, zip64 included). Every offset and length is checked before use, and anything
// that two readers could understand in two ways is refused: LibTorch's reader opens the same file
// later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace retina {

class StoredZip {
 public:
  static bool looks_like_one(std::string_view bytes) { return bytes.starts_with("PK\3\4"); }

  // Reads the directory. `bytes` must outlive this. Throws Error{kData} beginning with `subject`:
  // no closing directory (cut short), anything outside the file, compressed or encrypted files, a
  // name twice (in upper or lower case), bytes of two files or between the directory and its end
  // record.
  StoredZip(std::string_view bytes, std::string subject);

  // Opens a file, keeping only the directory and the bytes read in memory. Throws the same, and as
  // file_size_bytes.
  static StoredZip open(const std::string& path);

  bool has(std::string_view name) const { return entries_.find(name) != entries_.end(); }

  // Returns all names, sorted.
  std::vector<std::string_view> names() const;

  // Returns a file's bytes, checked against its CRC-32 (absent if torch was told not to compute
  // them). Throws Error{kData}: missing, damaged.
  std::string_view read(std::string_view name) const;

  // Returns the folder that holds `file` at the archive's top, e.g. "archive/"; throws if there is
  // none.
  std::string folder_of(std::string_view file) const;

 private:
  // Returns bytes that lie within the file; they stay valid as long as the source.
  using Source = std::function<std::string_view(std::uint64_t offset, std::uint64_t size_bytes)>;
  struct Entry {
    std::uint64_t offset = 0, size_bytes = 0;
    std::uint32_t crc32 = 0;
  };
  StoredZip(std::uint64_t file_bytes, Source source, std::string subject);
  [[noreturn]] void fail(const std::string& problem) const;
  std::string_view slice(std::uint64_t offset, std::uint64_t size_bytes) const;
  std::uint64_t end_record() const;
  void read_directory();
  void check_entries() const;
  std::uint64_t add_entry(std::string_view directory, std::uint64_t place);

  std::uint64_t file_bytes_;
  Source source_;
  std::string subject_;
  std::map<std::string_view, Entry> entries_{};
};

// Computes the CRC of ITU-T V.42, as zip uses it.
std::uint32_t crc32(std::string_view bytes);

}  // namespace retina
