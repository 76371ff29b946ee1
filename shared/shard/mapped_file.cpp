#include "shared/shard/mapped_file.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "shared/base/descriptor.h"
#include "shared/base/error.h"
#include "shared/base/file.h"

namespace retina {

MappedFile::MappedFile(int descriptor, std::size_t size_bytes) {
  void* const start = ::mmap(nullptr, size_bytes, PROT_READ, MAP_SHARED, descriptor, 0);
  if (start == MAP_FAILED) {
    problem_ = errno;
  } else {
    content_ = {static_cast<const char*>(start), size_bytes};
  }
}

MappedFile::MappedFile(const std::string& path, std::size_t size_bytes) {
  const Descriptor file(path, O_RDONLY);
  if (file) {
    *this = MappedFile(file.get(), size_bytes);
  } else {
    problem_ = errno;
  }
}

MappedFile::~MappedFile() {
  if (!content_.empty()) ::munmap(const_cast<char*>(content_.data()), content_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : content_(std::exchange(other.content_, {})), problem_(other.problem_) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(content_, other.content_);
  std::swap(problem_, other.problem_);
  return *this;
}

void fail_to_map(const std::string& path, int code) {
  const std::string problem = cat(path, ": cannot be mapped (", std::strerror(code), ")");
  switch (code) {
    case ENODEV:
      throw Error(ErrorKind::kUnavailable, problem, "choose a local disk with --scratch or TMPDIR");
    case ENOMEM:
    case EAGAIN:
    case EMFILE:
      throw Error(ErrorKind::kUnavailable, problem, "free memory, or raise `ulimit -v` and -n");
    default:
      throw read_error(path, code);
  }
}

}  // namespace retina
