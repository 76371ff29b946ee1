#include "shared/shard/shard_tree.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/shard/damaged.h"

namespace retina {
namespace {

// LMDB 0.9's page header: u64 page number, u16 pad, u16 flags, then the u16 ends of the node
// offsets (which follow the header) and of the free space or, for a run of overflow pages, its u32
// length. Numbers are in the machine's byte order.
constexpr std::size_t kPageHeaderBytes = 16, kFlagsAt = 10, kOffsetsEndAt = 12, kRunLengthAt = 12;
constexpr std::uint16_t kBranchFlag = 0x01, kLeafFlag = 0x02, kOverflowFlag = 0x04;
constexpr std::uint16_t kKindFlags = 0x7F;  // the others exist in memory only

// A node: u32 and u16 number, u16 bytes of the key, key. In a branch the number is the child's
// page, 48 bits; in a leaf 32 bits are the bytes of the value, 16 are flags, and after the key
// comes the value or the u64 number of its first overflow page.
constexpr std::size_t kNodeHeaderBytes = 8, kNodeFlagsAt = 4, kKeyBytesAt = 6, kKeyBytes = 8,
                      kPageNumberBytes = 8;
constexpr std::uint16_t kOnOverflowPages = 0x01;

// Meta pages 0 and 1: a page header, then u32 magic, u32 version, address, map size, two databases
// of 48 bytes (free pages, records; the first begins with the u32 page size, both end with the u64
// root page), last page, transaction. The one with the later transaction counts.
constexpr std::size_t kLmdbMagicAt = 16, kLmdbVersionAt = 20, kPageSizeAt = 40, kRootAt = 128,
                      kTransactionAt = 144, kMetaBytes = 152;
constexpr std::uint32_t kLmdbMagic = 0xBEEFC0DE, kLmdbVersion = 1;
constexpr std::uint32_t kMinPageBytes = 512, kMaxPageBytes = 65536;
constexpr std::uint64_t kNoPage = ~std::uint64_t{0};
constexpr int kMaxDepth = 32;  // LMDB's own limit

template <class T>
T number(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

void read_exactly(const FileReader& file, const std::string& path, std::uint64_t offset,
                  std::size_t size_bytes, char* out) {
  if (file.read_at(offset, out, size_bytes) == size_bytes) return;
  throw Error(ErrorKind::kIo, cat(path, ": reading failed at byte ", offset, " (the file ends)"));
}

// Returns the page size. `meta`: the first kMetaBytes of the file, or fewer if it is shorter.
std::size_t page_size_bytes(std::string_view meta, const std::string& path) {
  std::uint32_t magic = 0, page_bytes = 0;
  if (meta.size() >= kMetaBytes) {
    magic = number<std::uint32_t>(meta.data() + kLmdbMagicAt);
    page_bytes = number<std::uint32_t>(meta.data() + kPageSizeAt);
  }
  const bool power_of_two = page_bytes != 0 && (page_bytes & (page_bytes - 1)) == 0;
  if (magic != kLmdbMagic || !power_of_two || page_bytes < kMinPageBytes ||
      page_bytes > kMaxPageBytes) {
    fail_damaged(path, "is not an LMDB file for this kind of machine");
  }
  return page_bytes;
}

// Walks from the root to the leaves, first key first.
class TreeWalk {
 public:
  TreeWalk(std::string_view file, const std::string& path)
      : file_(file),
        path_(path),
        page_bytes_(page_size_bytes(file.substr(0, kMetaBytes), path)),
        page_count_(file.size() / page_bytes_),
        was_used_(page_count_) {}

  std::vector<std::string_view> records() {
    if (page_count_ < 2) fail(0, "the file does not have two meta pages");
    const std::uint64_t root = number<std::uint64_t>(newer_meta() + kRootAt);
    if (root != kNoPage) visit(root, 1);
    return std::move(records_);
  }

 private:
  const char* newer_meta() const {
    const char* newer = file_.data();
    const char* other = file_.data() + page_bytes_;
    if (number<std::uint64_t>(newer + kTransactionAt) <
        number<std::uint64_t>(other + kTransactionAt)) {
      newer = other;
    }
    if (number<std::uint32_t>(newer + kLmdbMagicAt) != kLmdbMagic ||
        number<std::uint32_t>(newer + kLmdbVersionAt) != kLmdbVersion) {
      fail(newer == file_.data() ? 0 : 1, "is not a meta page of LMDB 0.9");
    }
    return newer;
  }

  // Visits each page at most once, so that pages that lead to each other do not loop forever.
  void visit(std::uint64_t page, int depth) {
    if (page < 2 || page >= page_count_) fail(page, "lies outside the file");
    if (was_used_[page] || depth > kMaxDepth) fail(page, "is used twice");
    was_used_[page] = true;
    const char* bytes = file_.data() + page * page_bytes_;
    const unsigned kind = number<std::uint16_t>(bytes + kFlagsAt) & kKindFlags;
    if (number<std::uint64_t>(bytes) != page || (kind != kBranchFlag && kind != kLeafFlag)) {
      fail(page, "is not a page of the tree");
    }
    const std::size_t offsets_end = number<std::uint16_t>(bytes + kOffsetsEndAt);
    if (offsets_end < kPageHeaderBytes || offsets_end > page_bytes_ || offsets_end % 2 != 0) {
      fail(page, "has a wrong number of nodes");
    }
    for (std::size_t at = kPageHeaderBytes; at < offsets_end; at += 2) {
      const std::size_t node = number<std::uint16_t>(bytes + at);
      if (node < offsets_end || node + kNodeHeaderBytes > page_bytes_) {
        fail(page, "has a node outside it");
      }
      if (kind == kBranchFlag) {
        visit(number<std::uint64_t>(bytes + node) & 0xFFFF'FFFF'FFFF, depth + 1);
      } else {
        add_record(page, node);
      }
    }
  }

  void add_record(std::uint64_t page, std::size_t node) {
    const std::string_view rest = file_.substr(page * page_bytes_ + node, page_bytes_ - node);
    const std::size_t value_bytes = number<std::uint32_t>(rest.data());
    const auto flags = number<std::uint16_t>(rest.data() + kNodeFlagsAt);
    const bool is_next_key =
        number<std::uint16_t>(rest.data() + kKeyBytesAt) == kKeyBytes &&
        rest.size() >= kNodeHeaderBytes + kKeyBytes &&
        big_endian(rest.substr(kNodeHeaderBytes, kKeyBytes)) == records_.size();
    if (!is_next_key) fail(page, cat("lacks record ", records_.size()));
    const std::string_view value = rest.substr(kNodeHeaderBytes + kKeyBytes);
    if (flags == 0 && value_bytes <= value.size()) {
      records_.push_back(value.substr(0, value_bytes));
      return;
    }
    if (flags != kOnOverflowPages || value.size() < kPageNumberBytes) {
      fail(page, cat("has record ", records_.size(), " outside it"));
    }
    const auto first = number<std::uint64_t>(value.data());
    if (first < 2 || first >= page_count_ ||
        file_.size() - first * page_bytes_ < kPageHeaderBytes + value_bytes) {
      fail(page, cat("has record ", records_.size(), " outside the file"));
    }
    records_.push_back(file_.substr(first * page_bytes_ + kPageHeaderBytes, value_bytes));
  }

  static std::uint64_t big_endian(std::string_view key) {
    std::uint64_t value = 0;
    for (const char byte : key) value = value << 8 | static_cast<unsigned char>(byte);
    return value;
  }

  [[noreturn]] void fail(std::uint64_t page, const std::string& problem) const {
    fail_damaged(path_, cat("is damaged: page ", page, " ", problem));
  }

  std::string_view file_;
  const std::string& path_;
  std::size_t page_bytes_;
  std::uint64_t page_count_;
  std::vector<bool> was_used_;
  std::vector<std::string_view> records_{};
};

}  // namespace

std::uint64_t shard_tree_xxh3(const std::string& path) {
  const FileReader file(path);
  // Only a page of every record is read: reading ahead would fetch the whole file.
  ::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_RANDOM);
  const std::uint64_t file_bytes = file.size_bytes();
  std::string meta(std::min<std::uint64_t>(file_bytes, kMetaBytes), '\0');
  read_exactly(file, path, 0, meta.size(), meta.data());
  const std::size_t page_bytes = page_size_bytes(meta, path);
  const std::uint64_t page_count = file_bytes / page_bytes;
  const auto page = std::make_unique<char[]>(page_bytes);
  Hasher hasher;
  for (std::uint64_t index = 0; index < page_count;) {
    read_exactly(file, path, index * page_bytes, page_bytes, page.get());
    const bool overflow = (number<std::uint16_t>(page.get() + kFlagsAt) & kOverflowFlag) != 0;
    hasher.update(page.get(), overflow ? kPageHeaderBytes : page_bytes);
    const std::uint64_t run = number<std::uint32_t>(page.get() + kRunLengthAt);
    index += overflow ? std::max<std::uint64_t>(run, 1) : 1;
  }
  return hasher.digest();
}

std::vector<std::string_view> list_records(std::string_view file, const std::string& path) {
  return TreeWalk(file, path).records();
}

}  // namespace retina
