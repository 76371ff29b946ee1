// A file mapped into memory for reading.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace retina {

class MappedFile {
 public:
  // Maps nothing.
  MappedFile() = default;
  // Maps the first `size_bytes` of an open file, which may be closed or removed afterwards. If that
  // fails, problem() is an errno: a mount without mmap is not an error yet.
  MappedFile(int descriptor, std::size_t size_bytes);
  // Maps a file by name.
  MappedFile(const std::string& path, std::size_t size_bytes);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::string_view content() const { return content_; }
  int problem() const { return problem_; }

 private:
  std::string_view content_{};
  int problem_ = 0;
};

// Throws the error for a problem(): kUnavailable (no mmap, memory), read_error().
[[noreturn]] void fail_to_map(const std::string& path, int code);

}  // namespace retina
