// A file on a local disk whose parts arrive in any order. A table after its last byte records the
// parts that are there, and their version of the source, so that another process can continue the
// work of a killed one.
//
//   [size] content, [8] magic, [8] bytes of a part, [8] version, [parts] 1: that part is whole
//
// A power failure may keep a mark and lose its part: the code that completes the file compares its
// hash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "shared/remote/http_client.h"

namespace retina {

class PartialFile {
 public:
  // Continues with an open file. `descriptor` is open for reading and writing, empty or left by an
  // earlier object; it stays the caller's. All functions throw std::system_error if the disk is
  // full or cannot be read.
  PartialFile(int descriptor, std::uint64_t size_bytes, std::uint64_t part_bytes);

  std::size_t part_count() const { return marks_.size(); }
  ByteRange range_of(std::size_t part) const;
  bool has(std::size_t part) const { return marks_[part] == 1; }
  bool is_whole() const;

  // Returns the version of the source that the parts are from; 0: none has come.
  std::uint64_t version() const { return version_; }
  // Forgets all parts; later ones are of this version.
  void begin(std::uint64_t version);

  void write(std::uint64_t offset_bytes, std::string_view bytes) const;  // thread-safe
  // Marks a part as complete. One thread at a time.
  void mark(std::size_t part);
  // Cuts off the table behind the content.
  void finish() const;

 private:
  int descriptor_;
  std::uint64_t size_bytes_, part_bytes_, version_ = 0;
  std::vector<unsigned char> marks_;
};

}  // namespace retina
