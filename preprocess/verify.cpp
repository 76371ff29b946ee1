#include "preprocess/verify.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "preprocess/ordered_streams.h"
#include "preprocess/tally.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/progress.h"
#include "shared/base/url.h"
#include "shared/data/record_image.h"
#include "shared/remote/remote_folder.h"
#include "shared/shard/damaged.h"
#include "shared/shard/quarantine.h"
#include "shared/shard/shard_copies.h"
#include "shared/shard/shard_file.h"
#include "shared/shard/shard_set.h"

namespace retina {
namespace {

// The findings of a decode thread about one record.
struct CheckedRecord {
  Record record{};  // without image
  std::string problem{};
};

class Verifier {
 public:
  explicit Verifier(const VerifyOptions& options) : options_(options) {
    if (is_url(options.folder)) remote_.emplace(options.folder);
  }

  VerifyResult run() {
    if (!read_the_manifest()) return result_;
    tally_ = std::make_unique<Tally>(manifest_.categories.size());
    if (remote_) {
      copies_.emplace(*remote_, manifest_.shards, options_.scratch);
    } else {
      for (const ManifestShard& shard : manifest_.shards) shards_whole_ &= check_file(shard.file);
    }
    check_file(manifest_.index);
    if (check_file(manifest_.quarantine)) check_quarantine();
    has_index_ = check([&] { read_index(); });
    check_records();
    result_.task = manifest_.task;
    result_.counts = tally_->counts;
    if (shards_whole_ && result_.problem_count == 0) check_counts();
    if (has_index_ && !manifest_.options.tile) check_image_ids();
    return result_;
  }

 private:
  void report(const std::string& problem) {
    ++result_.problem_count;
    if (options_.on_problem) options_.on_problem(problem);
  }

  // Runs `body`; damage is reported. Returns whether there was none.
  template <class Body>
  bool check(const Body& body) {
    try {
      body();
      return true;
    } catch (const Error& error) {
      // A mount that fails, or this machine's own lack of resources, is not damage. Nor is what may
      // not be read, nor a file of a newer version where all was whole.
      const bool is_gone = error.kind() == ErrorKind::kNoInput && !remote_ && !is_denied(error);
      const bool is_damage = error.kind() == ErrorKind::kData || is_gone;
      const bool is_newer = result_.problem_count == 0 && is_of_newer_version(error);
      if (!is_damage || is_newer) throw;
      report(error.what());
      return false;
    }
  }

  std::string path_of(const ManifestFile& file) const {
    return cat(options_.folder, "/", file.name);
  }

  std::string read(const ManifestFile& file) const {
    const auto is_whole = [&](const std::string& text) { return xxh3(text) == file.xxh3; };
    return remote_ ? remote_->read(file.name, kMostTextBytes, is_whole) : read_file(path_of(file));
  }

  bool read_the_manifest() {
    if (remote_) {
      // Thrown: what a URL answers may be anything.
      manifest_ =
          decode_manifest(read_manifest_text(*remote_), cat(options_.folder, "/", kManifestFile));
      return true;
    }
    const bool has_parts = path_exists(options_.folder + "/" + kIndexFile) ||
                           path_exists(options_.folder + "/" + kManifestFile);
    if (!has_parts) read_manifest(options_.folder);  // throws: no data set at all
    return check([&] { manifest_ = read_manifest(options_.folder); });
  }

  bool check_file(const ManifestFile& file) {
    result_.size_bytes += file.size_bytes;
    return check([&] {
      if (remote_) return check_hash(file, xxh3(read(file)));
      check_file_size(options_.folder, file);
      check_hash(file, xxh3_file(path_of(file)));
    });
  }

  void check_hash(const ManifestFile& file, std::uint64_t hash) const {
    if (hash == file.xxh3) return;
    throw Error(ErrorKind::kData,
                cat(path_of(file), ": is damaged (its checksum does not match: got ", hex64(hash),
                    ", want ", hex64(file.xxh3), ")"));
  }

  void check_quarantine() {
    check([&] {
      const std::string path = path_of(manifest_.quarantine);
      const std::size_t count = decode_quarantine(read(manifest_.quarantine), path).size();
      if (static_cast<std::int64_t>(count) == manifest_.counts.quarantined) return;
      throw Error(ErrorKind::kData, cat(path, ": wrong number of images (got ", count, ", want ",
                                        manifest_.counts.quarantined, ")"));
    });
  }

  void read_index() {
    const std::string path = path_of(manifest_.index);
    index_ = decode_index(read(manifest_.index), path);
    check_index(index_, manifest_, path);
  }

  // A shard being checked.
  struct ShardWork {
    const ShardFile& file;
    std::string name{};           // path of the shard, for messages
    std::size_t first_index = 0;  // index place of its first record
  };

  void check_records() {
    Progress progress("verifying", manifest_.counts.images,
                      manifest_.options.tile ? "tiles" : "images");
    std::size_t first_index = 0;
    for (const ManifestShard& shard : manifest_.shards) {
      // A damaged tree is reported once; its records cannot be reached.
      check([&] {
        const ShardFile file = open(shard);
        check_shard({.file = file, .name = path_of(shard.file), .first_index = first_index},
                    progress);
      });
      if (copies_) copies_->remove(shard);
      first_index += static_cast<std::size_t>(shard.record_count);
    }
    progress.finish();
  }

  ShardFile open(const ManifestShard& shard) {
    if (!copies_) return ShardFile(options_.folder, shard, options_.scratch);
    result_.size_bytes += shard.file.size_bytes;
    ShardCopy copy = copies_->copy(shard);
    if (copy.state == CopyState::kDamaged) {
      shards_whole_ = check([&] { check_hash(shard.file, copy.xxh3); });
    }
    return ShardFile(path_of(shard.file), shard, std::move(copy.file));
  }

  void check_shard(const ShardWork& shard, Progress& progress) {
    std::vector<JpegDecoder> decoders(static_cast<std::size_t>(options_.thread_count));
    OrderedStreams<CheckedRecord> work(
        {.count = shard.file.size(), .thread_count = options_.thread_count},
        [&](int thread, std::size_t place, const auto& put) {
          put(check_record(shard, place, decoders[static_cast<std::size_t>(thread)]), 0);
        });
    for (std::size_t place = 0; place < shard.file.size(); ++place) {
      const CheckedRecord checked = *work.take();
      work.take();  // its end
      if (checked.problem.empty()) {
        tally_->add(checked.record);
      } else {
        progress.clear();
        report(checked.problem);
      }
      progress.update(static_cast<std::int64_t>(shard.first_index + place + 1));
    }
  }

  CheckedRecord check_record(const ShardWork& shard, std::size_t place,
                             JpegDecoder& decoder) const {
    try {
      const std::string name =
          cat(shard.name, ": ",
              has_index_ ? record_name(index_[shard.first_index + place]) : cat("record ", place));
      const std::string_view bytes = shard.file.bytes(place);
      CheckedRecord checked{.record = has_index_ ? decode_with_index(bytes, shard, place)
                                                 : decode_record(bytes, name)};
      Image image;
      decode_image(checked.record, name, decoder, image);
      checked.record.image = {};
      return checked;
    } catch (const Error& error) {
      return {.problem = error.what()};
    }
  }

  Record decode_with_index(std::string_view bytes, const ShardWork& shard,
                           std::size_t place) const {
    const IndexEntry entry = index_[shard.first_index + place];
    Record record =
        decode_indexed_record(bytes, entry, {.folder = options_.folder, .manifest = manifest_});
    const std::vector<int> labels = entry_labels(record);
    const IndexEntry counted = index_entry(record, xxh3(record.image),
                                           {.shard = entry.shard, .place = entry.place}, labels);
    if (counted != entry) {
      throw Error(ErrorKind::kData,
                  cat(shard.name, ": ", record_name(entry),
                      ": disagrees with the index in its box counts or its image"));
    }
    return record;
  }

  void check_counts() {
    ManifestCounts counted = tally_->counts;
    counted.quarantined = manifest_.counts.quarantined;
    if (counted != manifest_.counts || manifest_.label_counts != tally_->label_counts ||
        manifest_.box_sizes != tally_->box_sizes) {
      report(cat(options_.folder, "/", kManifestFile, ": its counts are not those of the records"));
    }
  }

  void check_image_ids() {
    std::vector<std::int64_t> ids;
    ids.reserve(index_.size());
    for (const IndexEntry& entry : index_) ids.push_back(entry.image_id);
    std::sort(ids.begin(), ids.end());
    const auto twice = std::adjacent_find(ids.begin(), ids.end());
    if (twice == ids.end()) return;
    report(cat(path_of(manifest_.index), ": lists image ", *twice, " twice"));
  }

  const VerifyOptions& options_;
  VerifyResult result_{};
  std::optional<RemoteFolder> remote_{};
  std::optional<ShardCopies> copies_{};  // of a URL's shards
  Manifest manifest_{};
  std::unique_ptr<Tally> tally_{};
  ImageIndex index_{};
  bool has_index_ = false, shards_whole_ = true;
};

}  // namespace

VerifyResult verify_shards(const VerifyOptions& options) {
  return Verifier(options).run();
}

}  // namespace retina
