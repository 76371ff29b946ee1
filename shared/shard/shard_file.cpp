#include "shared/shard/shard_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/mount.h"
#include "shared/base/scratch.h"
#include "shared/shard/damaged.h"
#include "shared/shard/shard_tree.h"
#include "shared/shard/staged_file.h"

namespace retina {
namespace {

[[noreturn]] void fail_to_map(const std::string& path, int code) {
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

}  // namespace

struct ShardFile::State {
  std::string_view content{};  // mapped
  std::vector<std::string_view> records{};
  std::optional<StagedFile> staged{};

  State() = default;
  ~State() {
    if (!content.empty()) ::munmap(const_cast<char*>(content.data()), content.size());
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // Returns an errno: a mount without mmap is not an error yet.
  int map(const std::string& path, std::uint64_t file_bytes) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return errno;
    void* start = ::mmap(nullptr, file_bytes, PROT_READ, MAP_SHARED, file, 0);
    const int code = start == MAP_FAILED ? errno : 0;
    ::close(file);
    if (code != 0) return code;
    content = {static_cast<const char*>(start), file_bytes};
    // ShardSet::read() asks for exactly the pages of its record.
    ::madvise(start, file_bytes, MADV_RANDOM);
    return 0;
  }

  // Checks the tree and maps the file, or its copy. `path` is its name in messages.
  void open(const std::string& path, const ManifestShard& shard, const std::string& scratch) {
    check_tree(path, path, shard);
    int code = map(path, shard.file.size_bytes);
    if (means_unsupported(code)) {
      warn_unsupported(MountAbility::kMemoryMap, path, code);
      staged.emplace(path, scratch.empty() ? default_scratch() : scratch);
      check_tree(staged->path(), path, shard);
      code = map(staged->path(), shard.file.size_bytes);
    }
    if (code != 0) fail_to_map(path, code);
  }

  static void check_tree(const std::string& file, const std::string& path,
                         const ManifestShard& shard) {
    if (file_size_bytes(file) != shard.file.size_bytes) fail_damaged(path, "changed its size");
    if (shard_tree_xxh3(file) == shard.tree_xxh3) return;
    fail_damaged(path, "is damaged (the checksum of its page tree does not match)");
  }
};

ShardFile::ShardFile(const std::string& folder, const ManifestShard& shard,
                     const std::string& scratch)
    : state_(std::make_unique<State>()) {
  check_file_size(folder, shard.file);
  const std::string path = folder + "/" + shard.file.name;
  state_->open(path, shard, scratch);
  state_->records = list_records(state_->content, path);
  if (size() != static_cast<std::size_t>(shard.record_count)) {
    fail_damaged(path,
                 cat("wrong number of records (got ", size(), ", want ", shard.record_count, ")"));
  }
}

ShardFile::~ShardFile() = default;

std::size_t ShardFile::size() const {
  return state_->records.size();
}

std::string_view ShardFile::bytes(std::size_t place) const {
  RETINA_CHECK(place < state_->records.size(), "record ", place, " of ", state_->records.size());
  return state_->records[place];
}

void check_file_size(const std::string& folder, const ManifestFile& file) {
  const std::string path = folder + "/" + file.name;
  const std::uint64_t size_bytes = file_size_bytes(path);
  if (size_bytes == file.size_bytes) return;
  fail_damaged(path, cat(size_bytes < file.size_bytes ? "is cut short" : "is too long", " (got ",
                         size_bytes, " bytes, want ", file.size_bytes, ")"));
}

}  // namespace retina
