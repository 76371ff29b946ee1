#include "preprocess/merge.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "preprocess/new_set.h"
#include "preprocess/output_folder.h"
#include "preprocess/pack_journal.h"
#include "preprocess/set_page.h"
#include "preprocess/source_images.h"
#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/output.h"
#include "shared/base/printable.h"
#include "shared/base/progress.h"
#include "shared/base/signals.h"
#include "shared/shard/shard_file.h"
#include "shared/shard/shard_set.h"
#include "shared/shard/shard_writer.h"

namespace retina {
namespace {

// A shard of a part.
struct PartShard {
  PackPart part{};
  std::string folder{};
  ManifestShard shard{};
  bool is_inner = true;  // neither the first nor the last of its part
};

std::string pack_again_hint(const std::string& output, const PackPart& part) {
  return cat("remove ", part_folder(output, part), ", pack it again with --part ", part.text(),
             ", then merge");
}

// Runs `read`, which reads what lies in the part.
template <class Read>
auto of_part(const std::string& output, const PackPart& part, const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData && error.kind() != ErrorKind::kNoInput) throw;
    throw Error(error.kind(), cat("part ", part.text(), ": ", error.what()),
                pack_again_hint(output, part));
  }
}

bool is_finished(const std::string& output, const PackPart& part) {
  return path_exists(part_folder(output, part) + "/" + kManifestFile);
}

// All parts, in order. Throws kNoInput where some are not finished, naming them.
std::vector<PackPart> all_parts(const std::string& output) {
  const std::vector<PackPart> begun = begun_parts(output);
  if (begun.empty()) {
    throw Error(ErrorKind::kNoInput, cat(output, ": holds no parts to merge"),
                "pack them: coco-pack --part 1/N ... --output OUTPUT, up to N/N");
  }
  const std::size_t count = begun.back().count;
  if (begun.front().count != count) {
    throw Error(ErrorKind::kConfig,
                cat(output, ": holds parts of ", begun.front().count, " and of ", count),
                cat("remove those of one number from ", journal_folder(output)));
  }
  std::vector<PackPart> parts;
  constexpr std::size_t kNamed = 20;
  std::string missing, commands;
  std::size_t missing_count = 0;
  for (std::size_t number = 1; number <= count; ++number) {
    parts.push_back({.number = number, .count = count});
    if (is_finished(output, parts.back())) continue;
    if (++missing_count > kNamed) continue;
    missing += cat(missing.empty() ? "" : ", ", number);
    commands += cat(commands.empty() ? "" : ", ", "--part ", parts.back().text());
  }
  if (missing_count == 0) return parts;
  const char* const more = missing_count > kNamed ? ", ..." : "";
  throw Error(ErrorKind::kNoInput,
              cat(output, ": ", missing_count, " of ", count, " parts ",
                  missing_count == 1 ? "is" : "are", " not packed (", missing, more, ")"),
              cat("run coco-pack with ", commands, more,
                  " and the other options of the finished parts, then --merge again"));
}

// An image of the parts; of tiles once or more often.
struct PartImage {
  std::int64_t id = 0;
  std::size_t number = 0;  // of the part

  friend auto operator<=>(const PartImage&, const PartImage&) = default;
};

// A part that was copied over another, by a version that did not write which it is.
void check_no_image_is_in_two(const std::string& output, std::size_t count,
                              std::vector<PartImage> images) {
  std::sort(images.begin(), images.end());
  const auto twice = std::adjacent_find(images.begin(), images.end(),
                                        [](const PartImage& one, const PartImage& other) {
                                          return one.id == other.id && one.number != other.number;
                                        });
  if (twice == images.end()) return;
  const PackPart first{.number = twice->number, .count = count};
  const PackPart second{.number = (twice + 1)->number, .count = count};
  throw Error(ErrorKind::kData,
              cat(output, ": image ", twice->id, " is in part ", first.text(), " and in part ",
                  second.text()),
              cat("remove ", part_folder(output, first), " and ", part_folder(output, second),
                  ", pack both again with --part, then merge"));
}

class Merger {
 public:
  Merger(const MergeOptions& options, const std::vector<PackPart>& parts)
      : options_(options),
        parts_(parts),
        first_(read_input()),
        scratch_folder_((begin_merge(options.output, first_),
                         building_folder(options.scratch, options.output))),
        scratch_(scratch_folder_, options.output),
        set_(first_.categories.size()) {}

  PackResult run() {
    std::int64_t image_count = 0, record_count = 0;
    std::vector<PartImage> images;
    for (const PackPart& part : parts_) {
      const Manifest manifest = add(part, images);
      image_count += manifest.counts.source_images() + manifest.counts.quarantined;
      record_count += manifest.counts.images;
    }
    check_no_image_is_in_two(options_.output, parts_.size(), std::move(images));
    Progress progress("merging", record_count, "records");
    for (std::size_t i = 0; i < part_shards_.size(); ++i) {
      take(i, progress);
    }
    finish_shard();
    progress.finish();
    keep_common_folders(set_.quarantined, static_cast<std::size_t>(image_count));
    if (set_.index.empty()) fail_without_images(set_.quarantined, options_.output);
    const FileNames names = file_names_of(set_.index);
    Manifest begun{.task = first_.task,
                   .annotations_size_bytes = first_.annotations_size_bytes,
                   .annotations_xxh3 = first_.annotations_xxh3,
                   .options = first_.options,
                   .notes = first_.notes};
    PackResult result =
        publish_new_set(set_, {.folder = options_.output,
                               .begun = begun,
                               .categories = first_.categories,
                               .file_name = [&](std::int64_t id) { return names.at(id); },
                               .thread_count = options_.thread_count});
    result.reused_shards = kept_count_;
    return result;
  }

 private:
  Manifest read_part(const PackPart& part) const {
    return of_part(options_.output, part,
                   [&] { return read_manifest(part_folder(options_.output, part)); });
  }

  Manifest read_input() const {
    Manifest input = read_part(parts_.front());
    input.options.pack_part.clear();
    return input;
  }

  // What is to merge of the part, whose images join `images`; nobody packs it again meanwhile.
  Manifest add(const PackPart& part, std::vector<PartImage>& images) {
    const std::string folder = part_folder(options_.output, part);
    locks_.emplace_back(folder);
    Manifest manifest = read_part(part);
    const std::string& holds = manifest.options.pack_part;
    if (holds != part.text()) {
      throw Error(ErrorKind::kData,
                  cat(options_.output, ": part ", part.text(), " holds ",
                      holds.empty() ? "a whole set" : cat("part ", holds)),
                  pack_again_hint(options_.output, part));
    }
    const std::string list = input_differences(first_, manifest);
    if (!list.empty()) {
      throw Error(ErrorKind::kConfig,
                  cat(options_.output, ": part ", part.text(),
                      " was packed with other options than part 1: ", list),
                  cat("pack the parts with the same options: --part K/", part.count,
                      " --overwrite replaces one"));
    }
    for (const ManifestShard& shard : manifest.shards) {
      const bool is_inner = &shard != &manifest.shards.front() && &shard != &manifest.shards.back();
      part_shards_.push_back(
          {.part = part, .folder = folder, .shard = shard, .is_inner = is_inner});
    }
    of_part(options_.output, part, [&] {
      const ShardSet set(folder);
      for (const IndexEntry& entry : set.index()) images.push_back({entry.image_id, part.number});
      for (QuarantinedImage& bad : set.read_quarantine()) {
        images.push_back({bad.image_id, part.number});
        set_.quarantined.push_back(std::move(bad));
      }
    });
    return manifest;
  }

  ShardFile open(const PartShard& one) const {
    return of_part(options_.output, one.part,
                   [&] { return ShardFile(one.folder, one.shard, scratch_folder_); });
  }

  // Whether the shard would be closed where it ends: an inner one was.
  bool is_closed(std::size_t i, const ShardFile& reader) const {
    if (part_shards_[i].is_inner || i + 1 == part_shards_.size()) return true;
    ShardSpace space(first_.options.shard_size_bytes);
    for (std::size_t place = 0; place < reader.size(); ++place) {
      space.add(reader.bytes(place).size());
    }
    return !space.has_space(open(part_shards_[i + 1]).bytes(0).size());
  }

  // Adds the records of the shard to the set, all of it as it is where that can be.
  void take(std::size_t i, Progress& progress) {
    const PartShard& one = part_shards_[i];
    const ShardFile reader = open(one);
    if (writer_ && !writer_->has_space(reader.bytes(0).size())) finish_shard();
    const bool is_kept = !writer_ && is_closed(i, reader);
    of_part(options_.output, one.part, [&] { take_records(one, reader, is_kept, progress); });
    if (!is_kept) return;
    set_.shards.push_back(one.shard);
    ++kept_count_;
  }

  void take_records(const PartShard& one, const ShardFile& reader, bool is_kept,
                    Progress& progress) {
    const std::string path = one.folder + "/" + one.shard.file.name;
    if (xxh3(reader.content()) != one.shard.file.xxh3) {
      throw Error(ErrorKind::kData, cat(path, ": is damaged (its checksum does not match)"));
    }
    constexpr std::size_t kRecordsAtOnce = 64;
    for (std::size_t place = 0; place < reader.size(); ++place) {
      if (stop_signal() != 0) stop();
      if (place % kRecordsAtOnce == 0) reader.forget_pages();
      const std::string_view bytes = reader.bytes(place);
      const Record record = decode_record(bytes, cat(path, ": record ", place));
      const auto place_now = is_kept ? static_cast<std::uint32_t>(place) : append(bytes);
      set_.count(record, xxh3(record.image),
                 {.shard = static_cast<std::uint32_t>(set_.shards.size()), .place = place_now});
      progress.update(std::ssize(set_.index));
    }
  }

  std::uint32_t append(std::string_view bytes) {
    if (writer_ && !writer_->has_space(bytes.size())) finish_shard();
    if (!writer_) {
      const std::string path = journal_shard_path(options_.output, set_.shards.size());
      writer_ = std::make_unique<ShardWriter>(path, first_.options.shard_size_bytes,
                                              scratch_.build_path(path));
    }
    return writer_->append(bytes);
  }

  void finish_shard() {
    if (!writer_) return;
    set_.shards.push_back(writer_->finish());
    writer_.reset();
  }

  [[noreturn]] void stop() const {
    throw Error(ErrorKind::kInterrupted,
                cat(options_.output, ": merge stopped by signal ", stop_signal()),
                "run the same command again");
  }

  const MergeOptions& options_;
  const std::vector<PackPart>& parts_;
  Manifest first_;  // of part 1: all have its input
  std::string scratch_folder_;
  Scratch scratch_;
  NewSet set_;
  std::deque<FolderLock> locks_{};  // a deque: its elements need not move
  std::vector<PartShard> part_shards_{};
  std::size_t kept_count_ = 0;
  std::unique_ptr<ShardWriter> writer_{};
};

PackResult finished(const MergeOptions& options) {
  restore_data_page({options.output, options.scratch, options.thread_count});
  return {.manifest = ShardSet(options.output, options.scratch).manifest(), .was_finished = true};
}

}  // namespace

PackResult merge_parts(const MergeOptions& options) {
  check_is_ours(options.output);
  const auto is_finished_set = [&] {
    return holds_set(options.output) && begun_parts(options.output).empty();
  };
  if (is_finished_set()) {
    remove_leftovers(options.output);
    return finished(options);
  }
  if (!is_folder(journal_folder(options.output))) all_parts(options.output);  // throws

  // What another run has done until this one had the lock, or left for it to do.
  PackResult result;
  {
    const OutputFolder folder(options.output);
    check_is_ours(options.output);
    const bool was_whole = as_io_error([&] { return publish_whole_set(options.output); });
    if (was_whole || is_finished_set()) return finished(options);
    const std::vector<PackPart> parts = all_parts(options.output);
    if (holds_set(options.output) && !options.overwrite) {
      throw Error(ErrorKind::kConfig, cat(options.output, ": holds a data set beside the parts"),
                  "replace it with --merge and --overwrite");
    }
    result = as_io_error([&] { return Merger(options, parts).run(); });
  }
  // Where locks of parts kept their folders.
  remove_leftovers(options.output);
  return result;
}

bool is_merge_interrupted(const std::string& output) {
  return path_exists(journal_folder(output) + "/" + kManifestFile);
}

void check_fits_other_parts(const PackOptions& options, const Manifest& wanted) {
  const std::string& output = options.output;
  if (is_merge_interrupted(output) && !options.overwrite && options.parts == 0) {
    throw Error(ErrorKind::kConfig,
                cat(output, ": was interrupted when its set was whole, but not published"),
                cat("run coco-pack --merge ", output));
  }
  const std::vector<PackPart> begun = begun_parts(output);
  if (begun.empty()) {
    if (!journal_input(output) || is_merge_interrupted(output)) return;
    throw Error(ErrorKind::kConfig, cat(output, ": holds an interrupted packing without parts"),
                cat("continue it without --part, or remove ", journal_folder(output)));
  }
  const auto part = options.part_of();
  const std::size_t count = part ? part->count : static_cast<std::size_t>(options.parts);
  for (const PackPart& other : begun) {
    if (other.count != count) {
      throw Error(
          ErrorKind::kConfig,
          cat(output, ": is packed in ", other.count, " parts (got ", count, ")"),
          cat("use the same number, or remove ", journal_folder(output), " to begin afresh"));
    }
    if (options.overwrite) continue;  // the others will be packed again, too
    const std::string folder = part_folder(output, other);
    const std::optional<Manifest> there = is_manifest(folder + "/" + kManifestFile)
                                              ? std::optional(read_manifest(folder))
                                              : journal_input(folder);
    const std::string list = there ? input_differences(*there, wanted) : "";
    if (list.empty()) continue;
    throw Error(ErrorKind::kConfig,
                cat(output, ": part ", other.text(), " was packed with other options: ", list),
                cat("use the same options, or --overwrite with each part"));
  }
}

}  // namespace retina
