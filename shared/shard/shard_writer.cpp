#include "shared/shard/shard_writer.h"

#include <fcntl.h>
#include <lmdb.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/mount.h"
#include "shared/shard/shard_file.h"
#include "shared/shard/shard_tree.h"

namespace retina {
namespace {

// A transaction holds its dirty pages in memory. Changing this changes the bytes of every shard.
constexpr std::size_t kTransactionBytes = std::size_t{16} << 20;

// Sizes of a record in the file: up to about half a page it lies in a leaf, else it has whole pages
// of its own. Fixed at 4 KiB so that every machine cuts the shards at the same records.
constexpr std::size_t kPageBytes = 4096, kInlineBytes = 2000, kNodeBytes = 32, kRunHeaderBytes = 16;

// LMDB's meta, root and free-list pages: counted from the start so that a shard keeps its limit.
constexpr std::uint64_t kSetupBytes = 8 * kPageBytes;

std::uint64_t cost_bytes(std::size_t record_bytes) {
  if (record_bytes <= kInlineBytes) return record_bytes + kNodeBytes;
  const std::size_t pages = (record_bytes + kRunHeaderBytes + kPageBytes - 1) / kPageBytes;
  return pages * kPageBytes + kNodeBytes;
}

// Returns the size of the mapping. It is address space, not disk: twice the content leaves room for
// half-full leaves and freed pages, and larger system pages waste proportionally more.
std::uint64_t map_bytes(std::uint64_t content_bytes) {
  constexpr std::uint64_t kSlackBytes = std::uint64_t{64} << 20;
  const auto system_page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return (2 * content_bytes + kSlackBytes) * std::max<std::uint64_t>(system_page / kPageBytes, 1);
}

void check(int code, const std::string& path) {
  if (code == MDB_SUCCESS) return;
  RETINA_CHECK(code != MDB_MAP_FULL && code != MDB_KEYEXIST && code != EINVAL, path, ": ",
               mdb_strerror(code));
  throw Error(ErrorKind::kIo, cat(path, ": writing failed (", mdb_strerror(code), ")"),
              "free some space or fix the mount, then run the same command again");
}

}  // namespace

struct ShardWriter::State {
  std::string path, temporary;
  bool built_elsewhere;
  std::uint64_t limit_bytes = 0;
  std::uint64_t used_bytes = kSetupBytes;
  std::size_t transaction_bytes = 0;
  MDB_env* env = nullptr;
  MDB_txn* txn = nullptr;
  MDB_dbi dbi = 0;
  std::vector<std::uint64_t> hashes{};  // of the records, for the check at the end

  State(std::string final_path, std::uint64_t shard_size_bytes, const std::string& build_path)
      : path(std::move(final_path)),
        temporary((build_path.empty() ? path : build_path) + ".tmp"),
        built_elsewhere(!build_path.empty() && build_path != path),
        limit_bytes(shard_size_bytes) {}
  ~State() {
    close();
    remove_file(temporary);  // gone after publishing
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void open() {
    remove_file(temporary);
    check(mdb_env_create(&env), path);
    check(mdb_env_set_mapsize(env, map_bytes(limit_bytes)), path);
    // NOSYNC: finish() syncs once, before the file gets its name.
    const int code =
        mdb_env_open(env, temporary.c_str(), MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC, 0666);
    if (code == ENOENT || code == EACCES || code == EPERM || code == EROFS) {
      throw Error(ErrorKind::kCannotCreate,
                  cat(path, ": cannot be created (", mdb_strerror(code), ")"),
                  "choose another --output or fix its permissions");
    }
    if (means_unsupported(code)) {
      throw Error(ErrorKind::kUnavailable,
                  cat(temporary, ": this file system cannot map files into memory (",
                      mdb_strerror(code), ")"),
                  "build the shards on a local disk with --scratch DIR");
    }
    check(code, path);
  }

  void close() {
    if (txn != nullptr) mdb_txn_abort(std::exchange(txn, nullptr));
    if (env != nullptr) mdb_env_close(std::exchange(env, nullptr));
  }

  void begin() {
    if (txn != nullptr) return;
    check(mdb_txn_begin(env, nullptr, 0, &txn), path);
    check(mdb_dbi_open(txn, nullptr, 0, &dbi), path);
  }

  void commit() {
    transaction_bytes = 0;
    if (txn == nullptr) return;
    check(mdb_txn_commit(std::exchange(txn, nullptr)), path);
    // Makes the disk begin now with the writes that finish() waits for; if it cannot, they begin
    // there.
    int file = -1;
    check(mdb_env_get_fd(env, &file), path);
    ::sync_file_range(file, 0, 0, SYNC_FILE_RANGE_WRITE);
  }

  // Cuts the file, which LMDB leaves at its last written page, to its last used one.
  void cut_to_used_size() {
    MDB_envinfo info;
    MDB_stat stat;
    check(mdb_env_info(env, &info), path);
    check(mdb_env_stat(env, &stat), path);
    close();
    const auto size_bytes = static_cast<off_t>((info.me_last_pgno + 1) * stat.ms_psize);
    if (::truncate(temporary.c_str(), size_bytes) != 0) check(errno, path);
  }

  // Compares the records with the written ones.
  void verify(const ManifestShard& shard) const {
    const std::filesystem::path file(temporary);
    ManifestShard written = shard;
    written.file.name = file.filename().string();
    const ShardFile reader(file.parent_path().string(), written);
    constexpr std::size_t kRecordsAtOnce = 64;
    for (std::size_t i = 0; i < hashes.size(); ++i) {
      if (i % kRecordsAtOnce == 0) reader.forget_pages();
      if (xxh3(reader.bytes(i)) == hashes[i]) continue;
      throw Error(ErrorKind::kIo,
                  cat(path, ": record ", i, " reads back differently from what was written"),
                  "the disk or mount is damaged; choose another --output");
    }
  }
};

ShardWriter::ShardWriter(std::string path, std::uint64_t shard_size_bytes, std::string build_path)
    : state_(std::make_unique<State>(std::move(path), shard_size_bytes, build_path)) {
  state_->open();
}

ShardWriter::~ShardWriter() = default;

bool ShardWriter::has_space(std::size_t record_bytes) const {
  return state_->hashes.empty() ||
         state_->used_bytes + cost_bytes(record_bytes) <= state_->limit_bytes;
}

std::uint32_t ShardWriter::append(std::string_view record_bytes, std::uint64_t hash) {
  State& state = *state_;
  if (state.hashes.empty() && record_bytes.size() > state.limit_bytes) {
    check(mdb_env_set_mapsize(state.env, map_bytes(record_bytes.size())), state.path);
  }
  state.begin();
  const std::uint64_t place = state.hashes.size();
  std::array<unsigned char, 8> key_bytes{};
  for (std::size_t i = 0; i < key_bytes.size(); ++i) {
    key_bytes[i] = static_cast<unsigned char>(place >> (56 - 8 * i));
  }
  MDB_val key{.mv_size = key_bytes.size(), .mv_data = key_bytes.data()};
  MDB_val value{.mv_size = record_bytes.size(), .mv_data = const_cast<char*>(record_bytes.data())};
  check(mdb_put(state.txn, state.dbi, &key, &value, MDB_APPEND), state.path);
  state.hashes.push_back(hash);
  state.used_bytes += cost_bytes(record_bytes.size());
  state.transaction_bytes += record_bytes.size();
  if (state.transaction_bytes >= kTransactionBytes) state.commit();
  return static_cast<std::uint32_t>(place);
}

ManifestShard ShardWriter::finish() {
  State& state = *state_;
  state.commit();
  state.cut_to_used_size();
  ManifestShard shard;
  shard.record_count = static_cast<std::int64_t>(state.hashes.size());
  const auto take_down = [&](const std::string& temporary) {
    shard.file.size_bytes = file_size_bytes(temporary);
    shard.tree_xxh3 = shard_tree_xxh3(temporary);
    state.verify(shard);
    shard.file.xxh3 = xxh3_file(temporary);
  };
  if (!state.built_elsewhere) {
    publish_file(state.temporary, state.path, take_down);
    return shard;
  }
  take_down(state.temporary);
  const std::uint64_t delivered = deliver_file(state.temporary, state.path);
  if (delivered != shard.file.xxh3) {
    remove_file(state.path);
    throw Error(ErrorKind::kIo,
                cat(state.temporary, ": reads back differently from what was written"),
                "the disk is damaged; choose another --scratch");
  }
  return shard;
}

}  // namespace retina
