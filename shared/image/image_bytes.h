// The content of an image file for the libraries that decode it: in memory, or read from the file
// on demand. The libraries are C, and an exception must not pass through them, so a failed read
// looks like the end of the file to them, and their caller asks rethrow() afterwards.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string_view>

#include "shared/base/file.h"

namespace retina {

class ImageBytes {
 public:
  // Keep a reference; bytes and file must live as long as this.
  explicit ImageBytes(std::string_view bytes) : bytes_(bytes), size_bytes_(bytes.size()) {}
  explicit ImageBytes(const FileReader& file) : file_(&file), size_bytes_(file.size_bytes()) {}

  std::uint64_t size_bytes() const { return size_bytes_; }
  // Returns all bytes; empty if they are in a file.
  std::string_view in_memory() const { return bytes_; }

  // Fills `to`, less only at the end or if reading fails; returns the number of bytes read.
  std::size_t read_at(std::uint64_t offset_bytes, char* to, std::size_t count) noexcept {
    if (file_ == nullptr) {
      const auto at = static_cast<std::size_t>(std::min(offset_bytes, size_bytes_));
      const std::size_t here = std::min(count, bytes_.size() - at);
      if (here > 0) std::memcpy(to, bytes_.data() + at, here);
      return here;
    }
    if (offset_bytes >= size_bytes_) return 0;
    try {
      return file_->read_at(offset_bytes, to, count);
    } catch (...) {
      failure_ = std::current_exception();
      return 0;
    }
  }

  // Throws the error that read_at() caught, if any.
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::string_view bytes_{};
  const FileReader* file_ = nullptr;
  std::uint64_t size_bytes_ = 0;
  std::exception_ptr failure_{};
};

}  // namespace retina
