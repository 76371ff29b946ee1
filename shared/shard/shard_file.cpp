#include "shared/shard/shard_file.h"

#include <sys/mman.h>

#include <cstdint>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/mount.h"
#include "shared/shard/damaged.h"
#include "shared/shard/shard_tree.h"

namespace retina {
namespace {

void check_tree(const std::string& path, const ManifestShard& shard) {
  if (file_size_bytes(path) != shard.file.size_bytes) fail_damaged(path, "changed its size");
  if (shard_tree_xxh3(path) == shard.tree_xxh3) return;
  fail_damaged(path, "is damaged (the checksum of its page tree does not match)");
}

}  // namespace

ShardFile::ShardFile(const std::string& folder, const ManifestShard& shard, ShardCopies& copies) {
  check_file_size(folder, shard.file);
  const std::string path = folder + "/" + shard.file.name;
  check_tree(path, shard);
  file_ = MappedFile(path, shard.file.size_bytes);
  if (const int code = file_.problem(); means_unsupported(code)) {
    warn_unsupported(MountAbility::kMemoryMap, path, code);
    // The copy of a damaged file is good enough: its records have hashes of their own.
    file_ = copies.copy(shard).file;
  } else if (code != 0) {
    fail_to_map(path, code);
  }
  list_all(path, shard);
}

ShardFile::ShardFile(const std::string& folder, const ManifestShard& shard,
                     const std::string& scratch) {
  ShardCopies copies(folder, {shard}, scratch);
  *this = ShardFile(folder, shard, copies);
}

ShardFile::ShardFile(const std::string& path, const ManifestShard& shard, MappedFile copy)
    : file_(std::move(copy)) {
  list_all(path, shard);
}

void ShardFile::list_all(const std::string& path, const ManifestShard& shard) {
  // ShardSet::read() asks for exactly the pages of its record.
  ::madvise(const_cast<char*>(file_.content().data()), file_.content().size(), MADV_RANDOM);
  records_ = list_records(file_.content(), path);
  if (size() != static_cast<std::size_t>(shard.record_count)) {
    fail_damaged(path,
                 cat("wrong number of records (got ", size(), ", want ", shard.record_count, ")"));
  }
}

std::size_t ShardFile::size() const {
  return records_.size();
}

std::string_view ShardFile::bytes(std::size_t place) const {
  RETINA_CHECK(place < records_.size(), "record ", place, " of ", records_.size());
  return records_[place];
}

void ShardFile::forget_pages() const {
  ::madvise(const_cast<char*>(file_.content().data()), file_.content().size(), MADV_DONTNEED);
}

void check_file_size(const std::string& folder, const ManifestFile& file) {
  const std::string path = folder + "/" + file.name;
  const std::uint64_t size_bytes = file_size_bytes(path);
  if (size_bytes == file.size_bytes) return;
  fail_damaged(path, cat(size_bytes < file.size_bytes ? "is cut short" : "is too long", " (got ",
                         size_bytes, " bytes, want ", file.size_bytes, ")"));
}

}  // namespace retina
