#include "shared/shard/shard_tree.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"

namespace retina {
namespace {

// LMDB 0.9's page header: u64 page number, u16 pad, u16 flags, then two u16 offsets or, for a run
// of overflow pages, its u32 length. Numbers are in the machine's byte order.
constexpr std::size_t kPageHeaderBytes = 16, kFlagsAt = 10, kRunLengthAt = 12;
constexpr std::uint16_t kOverflowFlag = 0x04;

// Meta page 0 follows its page header: u32 magic, u32 version, address, map size, page size.
constexpr std::size_t kMagicAt = 16, kPageSizeAt = 40, kMetaBytes = 44;
constexpr std::uint32_t kLmdbMagic = 0xBEEFC0DE;
constexpr std::uint32_t kMinPageBytes = 512, kMaxPageBytes = 65536;

template <class T>
T number(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

class Reader {
 public:
  explicit Reader(const std::string& path)
      : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) {
      throw read_error(path, errno);
    }
    // Only a page of every record is read: reading ahead would fetch the whole file.
    ::posix_fadvise(descriptor_, 0, 0, POSIX_FADV_RANDOM);
  }
  ~Reader() { ::close(descriptor_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  void read(std::uint64_t offset, std::size_t size_bytes, char* out) const {
    while (size_bytes > 0) {
      const ssize_t got = ::pread(descriptor_, out, size_bytes, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        throw Error(ErrorKind::kIo, cat(path_, ": reading failed at byte ", offset, " (",
                                        got < 0 ? std::strerror(errno) : "the file ends", ")"));
      }
      out += got;
      offset += static_cast<std::uint64_t>(got);
      size_bytes -= static_cast<std::size_t>(got);
    }
  }

 private:
  std::string path_;
  int descriptor_;
};

std::size_t page_size_bytes(const Reader& file, std::uint64_t file_bytes, const std::string& path) {
  std::uint32_t magic = 0, page_bytes = 0;
  if (file_bytes >= kMetaBytes) {
    char meta[kMetaBytes];
    file.read(0, sizeof(meta), meta);
    magic = number<std::uint32_t>(meta + kMagicAt);
    page_bytes = number<std::uint32_t>(meta + kPageSizeAt);
  }
  const bool power_of_two = page_bytes != 0 && (page_bytes & (page_bytes - 1)) == 0;
  if (magic != kLmdbMagic || !power_of_two || page_bytes < kMinPageBytes ||
      page_bytes > kMaxPageBytes) {
    throw Error(ErrorKind::kData, cat(path, ": is no LMDB file of this kind of machine"),
                "the data set is damaged; copy it again, or pack it again with coco-pack");
  }
  return page_bytes;
}

}  // namespace

std::uint64_t shard_tree_xxh3(const std::string& path) {
  const Reader file(path);
  const std::uint64_t file_bytes = file_size_bytes(path);
  const std::size_t page_bytes = page_size_bytes(file, file_bytes, path);
  const std::uint64_t page_count = file_bytes / page_bytes;
  const auto page = std::make_unique<char[]>(page_bytes);
  Hasher hasher;
  for (std::uint64_t index = 0; index < page_count;) {
    file.read(index * page_bytes, page_bytes, page.get());
    const bool overflow = (number<std::uint16_t>(page.get() + kFlagsAt) & kOverflowFlag) != 0;
    hasher.update(page.get(), overflow ? kPageHeaderBytes : page_bytes);
    const std::uint64_t run = number<std::uint32_t>(page.get() + kRunLengthAt);
    index += overflow ? std::max<std::uint64_t>(run, 1) : 1;
  }
  return hasher.digest();
}

}  // namespace retina
