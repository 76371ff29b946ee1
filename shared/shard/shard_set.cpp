#include "shared/shard/shard_set.h"

#include <sys/mman.h>
#include <unistd.h>

#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/log.h"
#include "shared/base/printable.h"
#include "shared/shard/damaged.h"
#include "shared/shard/shard_file.h"

namespace retina {
namespace {

std::vector<IndexEntry> read_index(const std::string& folder, const Manifest& manifest) {
  const std::string path = folder + "/" + manifest.index.name;
  check_file_size(folder, manifest.index);
  const std::string bytes = read_file(path);
  std::vector<IndexEntry> index = decode_index(bytes, path);
  if (xxh3(bytes) != manifest.index.xxh3) {
    fail_damaged(path, "belongs to another data set than the manifest");
  }
  return index;
}

// Starts reading all pages of the record at once; a hint only, so errors do not matter.
void prefetch(std::string_view bytes) {
  static const auto page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t first_page = begin - begin % page_bytes;
  ::madvise(reinterpret_cast<void*>(first_page), begin + bytes.size() - first_page, MADV_WILLNEED);
}

// Whether the record has the class of the index; false, too, for one of another task.
bool has_class_of(const Record& record, const IndexEntry& entry, Task task) {
  if (task == Task::kDetection) return !record.label;
  return record.label && entry.labels == std::vector<int>{*record.label};
}

}  // namespace

void check_index(const std::vector<IndexEntry>& index, const Manifest& manifest,
                 const std::string& name) {
  std::size_t at = 0;
  bool matches = true;
  for (std::size_t shard = 0; shard < manifest.shards.size(); ++shard) {
    for (std::int64_t place = 0; matches && place < manifest.shards[shard].record_count; ++place) {
      matches = at < index.size() && index[at].shard == shard && index[at].place == place;
      ++at;
    }
  }
  if (!matches || at != index.size() ||
      manifest.counts.images != static_cast<std::int64_t>(index.size())) {
    fail_damaged(name, cat("does not list the records of the manifest's shards (got ", index.size(),
                           " images, want ", manifest.counts.images, ")"));
  }
  const bool has_classes = manifest.task == Task::kClassification;
  for (const IndexEntry& entry : index) {
    // A version 1 index of boxes has no labels.
    if (has_classes ? entry.box_count > 0 || entry.labels.size() != 1
                    : entry.box_count == 0 && !entry.labels.empty()) {
      fail_damaged(name, cat(image_name(entry), " has not what a ", word_of(kTasks, manifest.task),
                             " set has (got ", entry.box_count, " boxes and ", entry.labels.size(),
                             " classes)"));
    }
    if (!entry.labels.empty() && entry.labels.back() >= manifest.class_count()) {
      fail_damaged(name,
                   cat("class label of ", image_name(entry), " is out of range (got ",
                       entry.labels.back(), ", want less than ", manifest.class_count(), ")"));
    }
  }
}

Record decode_indexed_record(std::string_view bytes, const IndexEntry& entry,
                             const RecordSource& source) {
  const Manifest& manifest = source.manifest;
  const std::string place =
      cat(source.folder, "/", manifest.shards[entry.shard].file.name, ": ", record_name(entry));
  Record record = decode_record(bytes, place);
  if (record.image_id != entry.image_id || record.width != entry.width ||
      record.height != entry.height || record.annotations.size() != entry.box_count ||
      record.file_name != entry.file_name || record.tile != entry.tile) {
    fail_damaged(
        place, cat("disagrees with the index (got ", image_name(record.image_id, record.file_name),
                   ", want ", image_name(entry), ")"));
  }
  if (!has_class_of(record, entry, manifest.task)) {
    fail_damaged(place, cat("its class is not that of the index (",
                            image_name(record.image_id, record.file_name), ")"));
  }
  for (const RecordAnnotation& annotation : record.annotations) {
    if (annotation.label >= manifest.class_count()) {
      fail_damaged(place, cat("class label is out of range (got ", annotation.label,
                              ", want less than ", manifest.class_count(), ")"));
    }
  }
  return record;
}

struct ShardSet::State {
  struct Slot {
    std::mutex mutex{};
    // Each is opened at most once and then stays: records point into it.
    std::optional<const ShardFile> from_mount{}, copy{};
  };

  std::string folder{}, scratch{};
  Manifest manifest{};
  std::vector<IndexEntry> index{};
  std::deque<Slot> slots{};  // a deque: its elements need not move
  std::optional<ShardCopies> copies{};
  std::optional<Stager> stager{};  // last: it uses the others

  const ShardFile& shard(std::size_t number) {
    Slot& slot = slots[number];
    const std::lock_guard lock(slot.mutex);
    if (slot.copy) return *slot.copy;
    if (!slot.from_mount) open(number, slot);
    return *slot.from_mount;
  }

  void open(std::size_t number, Slot& slot) {
    try {
      slot.from_mount.emplace(folder, manifest.shards[number], *copies);
    } catch (const Error& error) {
      // It was there when the set was opened: its mount has gone.
      if (error.kind() != ErrorKind::kNoInput) throw;
      throw Error(ErrorKind::kIo, error.what(), "fix the mount, then run the same command again");
    }
  }
};

ShardSet::ShardSet(const std::string& folder, const std::string& scratch)
    : state_(std::make_unique<State>()) {
  state_->folder = folder;
  state_->scratch = scratch;
  state_->manifest = read_manifest(folder);
  const Manifest& manifest = state_->manifest;
  state_->index = read_index(folder, manifest);
  check_index(state_->index, manifest, folder + "/" + manifest.index.name);
  check_file_size(folder, manifest.quarantine);
  for (const ManifestShard& shard : manifest.shards) check_file_size(folder, shard.file);
  state_->slots.resize(manifest.shards.size());
  state_->copies.emplace(folder, manifest.shards, scratch);
}

void ShardSet::stage_ahead(const std::function<std::vector<std::size_t>()>& shards,
                           const StageOptions& options) {
  const std::string& folder = state_->folder;
  if (options.limit_bytes == 0) return;
  const std::string reason = options.always ? "is slow, as --stage always says"
                                            : reason_to_stage(folder, state_->manifest);
  if (reason.empty()) return;
  if (state_->scratch.empty()) {
    if (options.announces) {
      log_info(folder, " ", reason, ": with --scratch, its shards are copied to a local disk ",
               "ahead of use");
    }
    return;
  }
  const std::vector<std::size_t> wanted = shards();
  if (wanted.empty()) return;
  state_->stager.emplace(
      StagerInput{.folder = folder,
                  .manifest = state_->manifest,
                  .copies = *state_->copies,
                  .shards = wanted,
                  .reason = reason,
                  .options = options,
                  .on_ready = [&slots = state_->slots](std::size_t number, ShardFile copy) {
                    const std::lock_guard lock(slots[number].mutex);
                    slots[number].copy.emplace(std::move(copy));
                  }});
}

ShardSet::~ShardSet() = default;
ShardSet::ShardSet(ShardSet&&) noexcept = default;
ShardSet& ShardSet::operator=(ShardSet&&) noexcept = default;

const std::string& ShardSet::folder() const {
  return state_->folder;
}
const Manifest& ShardSet::manifest() const {
  return state_->manifest;
}
const std::vector<IndexEntry>& ShardSet::index() const {
  return state_->index;
}

Record ShardSet::read(std::size_t index_place) const {
  RETINA_CHECK(index_place < state_->index.size(), "image ", index_place, " of ",
               state_->index.size());
  const IndexEntry& entry = state_->index[index_place];
  const std::string_view bytes = state_->shard(entry.shard).bytes(entry.place);
  prefetch(bytes);
  return decode_indexed_record(bytes, entry,
                               {.folder = state_->folder, .manifest = state_->manifest});
}

std::vector<QuarantinedImage> ShardSet::read_quarantine() const {
  const Manifest& manifest = state_->manifest;
  const std::string path = state_->folder + "/" + manifest.quarantine.name;
  const std::string text = read_file(path);
  if (xxh3(text) != manifest.quarantine.xxh3) {
    fail_damaged(path, "is damaged (its checksum does not match)");
  }
  std::vector<QuarantinedImage> images = decode_quarantine(text, path);
  if (static_cast<std::int64_t>(images.size()) != manifest.counts.quarantined) {
    fail_damaged(path, cat("does not list the quarantined images (got ", images.size(), ", want ",
                           manifest.counts.quarantined, ")"));
  }
  return images;
}

}  // namespace retina
