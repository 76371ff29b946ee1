#include "shared/shard/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

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
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    problem_ = errno;
    return;
  }
  *this = MappedFile(file, size_bytes);
  ::close(file);
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
