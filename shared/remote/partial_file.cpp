#include "shared/remote/partial_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "shared/base/descriptor.h"

namespace retina {
namespace {

constexpr std::uint64_t kPartialMagic = 0x3154524150544552;  // "RETPART1"

struct Trailer {
  std::uint64_t magic = kPartialMagic, part_bytes = 0, version = 0;
};

[[noreturn]] void fail_on_disk() {
  throw std::system_error(errno, std::generic_category());
}

void write_at(int descriptor, std::uint64_t offset, const void* data, std::size_t size_bytes) {
  const char* from = static_cast<const char*>(data);
  while (size_bytes > 0) {
    const ssize_t wrote =
        retried([&] { return ::pwrite(descriptor, from, size_bytes, static_cast<off_t>(offset)); });
    if (wrote < 0) fail_on_disk();
    from += wrote;
    offset += static_cast<std::uint64_t>(wrote);
    size_bytes -= static_cast<std::size_t>(wrote);
  }
}

bool read_at(int descriptor, std::uint64_t offset, void* data, std::size_t size_bytes) {
  const ssize_t got =
      retried([&] { return ::pread(descriptor, data, size_bytes, static_cast<off_t>(offset)); });
  if (got < 0) fail_on_disk();
  return static_cast<std::size_t>(got) == size_bytes;
}

}  // namespace

PartialFile::PartialFile(int descriptor, std::uint64_t size_bytes, std::uint64_t part_bytes)
    : descriptor_(descriptor),
      size_bytes_(size_bytes),
      part_bytes_(part_bytes),
      marks_((size_bytes + part_bytes - 1) / part_bytes, 0) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) fail_on_disk();
  const std::uint64_t full = size_bytes + sizeof(Trailer) + marks_.size();
  Trailer trailer;
  if (static_cast<std::uint64_t>(status.st_size) == full &&
      read_at(descriptor, size_bytes, &trailer, sizeof trailer) && trailer.magic == kPartialMagic &&
      trailer.part_bytes == part_bytes &&
      read_at(descriptor, size_bytes + sizeof trailer, marks_.data(), marks_.size())) {
    version_ = trailer.version;
    return;
  }
  // The file gets its full size at once: other processes count it under the limit of the scratch
  // folder.
  if (::ftruncate(descriptor, 0) != 0 || ::ftruncate(descriptor, static_cast<off_t>(full)) != 0) {
    fail_on_disk();
  }
  begin(0);
}

ByteRange PartialFile::range_of(std::size_t part) const {
  return {.begin = part * part_bytes_, .end = std::min(size_bytes_, (part + 1) * part_bytes_)};
}

bool PartialFile::is_whole() const {
  return std::all_of(marks_.begin(), marks_.end(), [](unsigned char mark) { return mark == 1; });
}

void PartialFile::begin(std::uint64_t version) {
  std::fill(marks_.begin(), marks_.end(), static_cast<unsigned char>(0));
  version_ = version;
  const Trailer trailer{.part_bytes = part_bytes_, .version = version};
  write_at(descriptor_, size_bytes_ + sizeof trailer, marks_.data(), marks_.size());
  write_at(descriptor_, size_bytes_, &trailer, sizeof trailer);
}

void PartialFile::write(std::uint64_t offset_bytes, std::string_view bytes) const {
  write_at(descriptor_, offset_bytes, bytes.data(), bytes.size());
}

void PartialFile::mark(std::size_t part) {
  marks_[part] = 1;
  write_at(descriptor_, size_bytes_ + sizeof(Trailer) + part, &marks_[part], 1);
}

void PartialFile::finish() const {
  if (::ftruncate(descriptor_, static_cast<off_t>(size_bytes_)) != 0) fail_on_disk();
}

}  // namespace retina
