#include "shared/shard/shard_set.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/log.h"
#include "shared/base/measure.h"
#include "shared/base/printable.h"
#include "shared/base/url.h"
#include "shared/remote/remote_folder.h"
#include "shared/shard/damaged.h"
#include "shared/shard/shard_file.h"

namespace retina {
namespace {

// Starts reading all pages of the record at once; a hint only, so errors do not matter.
void prefetch(std::string_view bytes) {
  static const auto page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t first_page = begin - begin % page_bytes;
  ::madvise(reinterpret_cast<void*>(first_page), begin + bytes.size() - first_page, MADV_WILLNEED);
}

constexpr std::uint64_t kTimesBeforeWarning = 2;

// Returns true if the record has the class of the index; false, too, for one of another task.
bool has_class_of(const Record& record, const IndexEntry& entry, Task task) {
  if (task == Task::kDetection) return !record.label;
  return record.label && entry.labels.size() == 1 && entry.labels[0] == *record.label;
}

}  // namespace

void check_index(const ImageIndex& index, const Manifest& manifest, const std::string& name) {
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
  // Plans and training rely on labels that fit the task and the categories.
  const bool has_classes = manifest.task == Task::kClassification;
  for (const IndexEntry& entry : index) {
    if (has_classes ? entry.box_count > 0 || entry.labels.size() != 1
                    : entry.box_count == 0 && !entry.labels.empty()) {
      fail_damaged(name, cat(image_name(entry), " does not fit a ", word_of(kTasks, manifest.task),
                             " set (got ", entry.box_count, " boxes and ", entry.labels.size(),
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

std::string read_manifest_text(const RemoteFolder& folder) {
  return folder.read(kManifestFile, kMostTextBytes, [](const std::string& text) {
    try {
      decode_manifest(text, kManifestFile);
      return true;
    } catch (const Error&) {
      return false;
    }
  });
}

struct ShardSet::State {
  struct Slot {
    std::mutex mutex{};
    // Each shard of a mount is opened at most once and then stays: records point into it. From a
    // URL, where there is only a copy, records own it.
    std::shared_ptr<const ShardFile> from_mount{}, copy{};
    std::uint64_t last_use = 0;     // of the copy, by `uses`
    std::optional<Error> damage{};  // from a URL: not downloaded again
  };

  std::string folder{}, scratch{};
  std::optional<std::uint64_t> limit_bytes{};
  std::optional<RemoteFolder> remote{};
  Manifest manifest{};
  ImageIndex index{};
  std::deque<Slot> slots{};                   // a deque: its elements need not move
  std::optional<std::uint64_t> room_bytes{};  // for all copies; unset before the first
  std::atomic<std::uint64_t> downloaded_bytes{0};
  std::optional<ShardCopies> copies{};
  std::optional<Stager> stager{};  // last: it uses the others

  // The sets by URL of this process, whose copies share one limit. One thread at a time makes room.
  struct All {
    std::mutex mutex{};
    std::set<State*> remote{};
    std::atomic<std::uint64_t> uses{0};
  };
  static All& all_sets() {
    static All all;
    return all;
  }

  ~State() {
    const std::lock_guard lock(all_sets().mutex);
    all_sets().remote.erase(this);
  }

  void open_mount();
  void open_remote();

  std::string path_of(std::size_t number) const {
    return folder + "/" + manifest.shards[number].file.name;
  }

  std::shared_ptr<const ShardFile> shard(std::size_t number) {
    Slot& slot = slots[number];
    const std::lock_guard lock(slot.mutex);
    slot.last_use = ++all_sets().uses;
    if (slot.copy) return slot.copy;
    if (slot.from_mount) return slot.from_mount;
    try {
      if (remote) return slot.copy = download(number, slot);
      return slot.from_mount =
                 std::make_shared<ShardFile>(folder, manifest.shards[number], *copies);
    } catch (const Error& error) {
      // The file was there when the set was opened: its mount has gone, unless this user may not
      // read it.
      if (error.kind() != ErrorKind::kNoInput || (!remote && is_denied(error))) throw;
      throw Error(ErrorKind::kIo, error.what(),
                  remote ? error.hint() : "fix the mount, then run the same command again");
    }
  }

  // Returns a downloaded shard. A copy that does not match its checksum is not used at all: a URL
  // may return a shard of another set.
  std::shared_ptr<const ShardFile> download(std::size_t number, Slot& slot) {
    if (slot.damage) throw Error(*slot.damage);
    const ManifestShard& wanted = manifest.shards[number];
    const std::string path = path_of(number);
    try {
      if (!copies->is_there(wanted)) {
        make_room(wanted.file.size_bytes, slot);
        count_download(wanted.file.size_bytes);
      }
      ShardCopy copy = copies->copy(wanted);
      if (copy.state == CopyState::kDamaged) {
        fail_damaged(path, cat("is damaged, or of another set (its checksum does not match: got ",
                               hex64(copy.xxh3), ", want ", hex64(wanted.file.xxh3), ")"));
      }
      return std::make_shared<ShardFile>(path, wanted, std::move(copy.file));
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::kData) slot.damage = error;
      throw;
    }
  }

  // Counts downloads, and warns once if copies are removed before they are used again.
  void count_download(std::uint64_t size_bytes) {
    std::uint64_t set_bytes = 0;
    for (const ManifestShard& shard : manifest.shards) set_bytes += shard.file.size_bytes;
    const std::uint64_t before = downloaded_bytes.fetch_add(size_bytes);
    const std::uint64_t most = kTimesBeforeWarning * set_bytes;
    if (before > most || before + size_bytes <= most) return;
    log_warning(folder, ": has been downloaded more than ", kTimesBeforeWarning, " times (",
                human_bytes(static_cast<double>(set_bytes)), "): its copies have room for ",
                human_bytes(static_cast<double>(*room_bytes)), " in ", copies->scratch(),
                "; give more --stage-limit or a larger --scratch, or --shuffle sharded");
  }

  // Removes copies of this process's sets that no record points into, those not used for longest
  // first. `own`: the slot whose lock the caller holds.
  void make_room(std::uint64_t needed_bytes, const Slot& own) {
    const std::lock_guard lock(all_sets().mutex);
    if (!room_bytes) room_bytes = stage_limit_bytes(limit_bytes, copies->scratch());
    while (ShardCopies::copied_bytes().full + needed_bytes > *room_bytes) {
      State* of = nullptr;
      std::size_t oldest = 0;
      std::uint64_t oldest_use = ~std::uint64_t{0};
      for (State* set : all_sets().remote) {
        for (std::size_t number = 0; number < set->slots.size(); ++number) {
          Slot& slot = set->slots[number];
          if (&slot == &own) continue;
          const std::unique_lock slot_lock(slot.mutex, std::try_to_lock);
          if (!slot_lock || !set->is_idle(number) || slot.last_use >= oldest_use) continue;
          of = set;
          oldest = number;
          oldest_use = slot.last_use;
        }
      }
      if (of == nullptr || !of->drop_copy(oldest)) return;
    }
  }

  // Returns true if the shard has a copy that no record points into. Needs the slot's lock.
  bool is_idle(std::size_t number) const {
    const std::shared_ptr<const ShardFile>& copy = slots[number].copy;
    return copy ? copy.use_count() == 1 : copies->is_left(manifest.shards[number]);
  }

  bool drop_copy(std::size_t number) {
    const std::unique_lock lock(slots[number].mutex, std::try_to_lock);
    if (!lock || !is_idle(number)) return false;
    slots[number].copy.reset();
    copies->remove(manifest.shards[number]);
    return true;
  }

  // Takes over a copy that the stager has made.
  void take_copy(std::size_t number, ShardFile copy) {
    const std::lock_guard lock(slots[number].mutex);
    if (slots[number].copy) return;
    slots[number].copy = std::make_shared<ShardFile>(std::move(copy));
    slots[number].last_use = ++all_sets().uses;
  }
};

void ShardSet::State::open_mount() {
  manifest = read_manifest(folder);
  check_file_size(folder, manifest.index);
  const std::string path = folder + "/" + manifest.index.name;
  index = decode_index(read_file(path), path, manifest.index.xxh3);
  check_file_size(folder, manifest.quarantine);
  for (const ManifestShard& shard : manifest.shards) check_file_size(folder, shard.file);
  copies.emplace(folder, manifest.shards, scratch);
}

void ShardSet::State::open_remote() {
  const std::string name = folder + "/" + kManifestFile;
  manifest = decode_manifest(read_manifest_text(*remote), name);
  copies.emplace(*remote, manifest.shards, scratch);
  const ShardCopy copy = copies->copy({.file = manifest.index});
  index =
      decode_index(copy.file.content(), folder + "/" + manifest.index.name, manifest.index.xxh3);
}

ShardSet::ShardSet(const std::string& folder, const std::string& scratch,
                   std::optional<std::uint64_t> limit_bytes)
    : state_(std::make_unique<State>()) {
  state_->folder = public_url(folder);
  state_->scratch = scratch;
  if (limit_bytes != 0) state_->limit_bytes = limit_bytes;
  if (is_url(folder)) {
    state_->remote.emplace(folder);
    state_->open_remote();
  } else {
    state_->open_mount();
  }
  check_index(state_->index, state_->manifest, state_->folder + "/" + state_->manifest.index.name);
  state_->slots.resize(state_->manifest.shards.size());
  if (!state_->remote) return;
  const std::lock_guard lock(State::all_sets().mutex);
  State::all_sets().remote.insert(state_.get());
}

void ShardSet::stage_ahead(const std::function<std::vector<std::size_t>()>& shards,
                           const StageOptions& options) {
  const std::string& folder = state_->folder;
  if (options.limit_bytes == 0) return;
  const std::string reason = state_->remote   ? "is a URL"
                             : options.always ? "is slow, as --stage always says"
                                              : reason_to_stage(folder, state_->manifest);
  if (reason.empty()) return;
  if (state_->scratch.empty() && !state_->remote) {
    if (options.announces) {
      log_info(folder, " ", reason, ": with --scratch, its shards are copied to a local disk ",
               "ahead of use");
    }
    return;
  }
  const std::vector<std::size_t> wanted = shards();
  if (wanted.empty()) return;
  state_->stager.emplace(StagerInput{
      .folder = folder,
      .manifest = state_->manifest,
      .copies = *state_->copies,
      .shards = wanted,
      .reason = reason,
      .otherwise = state_->remote ? "downloaded when they are used" : "read from the mount",
      .options = options,
      .on_ready = [state = state_.get()](std::size_t number, ShardFile copy) {
        state->take_copy(number, std::move(copy));
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
const ImageIndex& ShardSet::index() const {
  return state_->index;
}

Record ShardSet::read(std::size_t index_place) const {
  RETINA_CHECK(index_place < state_->index.size(), "image ", index_place, " of ",
               state_->index.size());
  const IndexEntry entry = state_->index[index_place];
  std::shared_ptr<const ShardFile> shard = state_->shard(entry.shard);
  const std::string_view bytes = shard->bytes(entry.place);
  prefetch(bytes);
  Record record =
      decode_indexed_record(bytes, entry, {.folder = state_->folder, .manifest = state_->manifest});
  if (state_->remote) record.keeps = std::move(shard);
  return record;
}

std::vector<QuarantinedImage> ShardSet::read_quarantine() const {
  const Manifest& manifest = state_->manifest;
  const std::string path = state_->folder + "/" + manifest.quarantine.name;
  const auto is_whole = [&](const std::string& text) {
    return xxh3(text) == manifest.quarantine.xxh3;
  };
  const std::string text =
      state_->remote ? state_->remote->read(manifest.quarantine.name, kMostTextBytes, is_whole)
                     : read_file(path);
  if (!is_whole(text)) {
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
