// A file mapped into memory for reading.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace retina {

class MappedFile {
 public:
  // Nothing.
  MappedFile() = default;
  // The first `size_bytes` of an open file, which may be closed or removed afterwards. Where that
  // fails, problem() is an errno: a mount without mmap is not an error yet.
  MappedFile(int descriptor, std::size_t size_bytes);
  // The same by name.
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

// What a problem() is for the user: throws kUnavailable (no mmap, memory), read_error().
[[noreturn]] void fail_to_map(const std::string& path, int code);

}  // namespace retina
