#include "shared/shard/shard_file.h"

#include <lmdb.h>

#include <cerrno>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/mount.h"
#include "shared/base/scratch.h"
#include "shared/shard/shard_tree.h"
#include "shared/shard/staged_file.h"

namespace retina {
namespace {

constexpr const char* kDamagedHint =
    "the data set is damaged; copy it again, or pack it again with coco-pack";

[[noreturn]] void fail_damaged(const std::string& path, const std::string& problem) {
  throw Error(ErrorKind::kData, cat(path, ": ", problem), kDamagedHint);
}

void check(int code, const std::string& path) {
  if (code == MDB_SUCCESS) return;
  const std::string problem = cat(path, ": cannot be opened (", mdb_strerror(code), ")");
  switch (code) {
    case ENODEV:
      throw Error(ErrorKind::kUnavailable, problem, "choose a local disk with --scratch or TMPDIR");
    case ENOMEM:
    case EAGAIN:
    case EMFILE:
      throw Error(ErrorKind::kUnavailable, problem, "free memory, or raise `ulimit -v` and -n");
    default:
      if (code > 0 && code != EINVAL) throw read_error(path, code);
      throw Error(ErrorKind::kData, problem, kDamagedHint);  // LMDB's own codes are negative
  }
}

std::uint64_t big_endian(const MDB_val& key) {
  std::uint64_t value = 0;
  const auto* bytes = static_cast<const unsigned char*>(key.mv_data);
  for (std::size_t i = 0; i < key.mv_size; ++i) value = value << 8 | bytes[i];
  return value;
}

}  // namespace

struct ShardFile::State {
  MDB_env* env = nullptr;
  MDB_txn* txn = nullptr;
  std::vector<std::string_view> records{};
  std::optional<StagedFile> staged{};

  State() = default;
  ~State() { close(); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void close() {
    if (txn != nullptr) mdb_txn_abort(std::exchange(txn, nullptr));
    if (env != nullptr) mdb_env_close(std::exchange(env, nullptr));
  }

  // Returns LMDB's code: a mount without mmap is not an error yet.
  int map(const std::string& path, std::uint64_t file_bytes) {
    check(mdb_env_create(&env), path);
    // The map ends where the file does: nothing behind it can be touched.
    check(mdb_env_set_mapsize(env, file_bytes), path);
    // NOLOCK: nothing is written beside the file. NORDAHEAD: read() asks for exactly the pages of
    // its record.
    return mdb_env_open(env, path.c_str(),
                        MDB_RDONLY | MDB_NOLOCK | MDB_NOTLS | MDB_NOSUBDIR | MDB_NORDAHEAD, 0);
  }

  // Checks the tree and maps the file, or its copy. `path` is its name in messages.
  void open(const std::string& path, const ManifestShard& shard, const std::string& scratch) {
    check_tree(path, path, shard);
    int code = map(path, shard.file.size_bytes);
    if (means_unsupported(code)) {
      warn_unsupported(MountAbility::kMemoryMap, path, code);
      close();
      staged.emplace(path, scratch.empty() ? default_scratch() : scratch);
      check_tree(staged->path(), path, shard);
      code = map(staged->path(), shard.file.size_bytes);
    }
    check(code, path);
    check(mdb_txn_begin(env, nullptr, MDB_RDONLY, &txn), path);
  }

  static void check_tree(const std::string& file, const std::string& path,
                         const ManifestShard& shard) {
    if (file_size_bytes(file) != shard.file.size_bytes) fail_damaged(path, "changed its size");
    if (shard_tree_xxh3(file) == shard.tree_xxh3) return;
    fail_damaged(path, "is damaged (the checksum of its page tree is off)");
  }

  // Takes down where every record lies; afterwards LMDB is not asked again, so that any number of
  // threads can read. Touches the tree's pages only.
  void list_records(const std::string& path, const ManifestShard& shard) {
    MDB_dbi dbi = 0;
    check(mdb_dbi_open(txn, nullptr, 0, &dbi), path);
    MDB_cursor* cursor = nullptr;
    check(mdb_cursor_open(txn, dbi, &cursor), path);
    const std::unique_ptr<MDB_cursor, void (*)(MDB_cursor*)> owner(cursor, &mdb_cursor_close);
    records.reserve(static_cast<std::size_t>(shard.record_count));
    MDB_val key{}, value{};
    int code = mdb_cursor_get(cursor, &key, &value, MDB_FIRST);
    for (; code == MDB_SUCCESS; code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) {
      if (key.mv_size != 8 || big_endian(key) != records.size()) {
        fail_damaged(path, cat("record ", records.size(), " is missing"));
      }
      // Inside the map: the checksum vouches for the tree, and the file has its size.
      records.emplace_back(static_cast<const char*>(value.mv_data), value.mv_size);
    }
    if (code != MDB_NOTFOUND) check(code, path);
    if (records.size() != static_cast<std::size_t>(shard.record_count)) {
      fail_damaged(path, cat("wrong number of records (got ", records.size(), ", want ",
                             shard.record_count, ")"));
    }
  }
};

ShardFile::ShardFile(const std::string& folder, const ManifestShard& shard,
                     const std::string& scratch)
    : state_(std::make_unique<State>()) {
  check_file_size(folder, shard.file);
  const std::string path = folder + "/" + shard.file.name;
  state_->open(path, shard, scratch);
  state_->list_records(path, shard);
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
