#include "preprocess/merge.h"

#include <deque>
#include <vector>

#include "preprocess/new_set.h"
#include "preprocess/output_folder.h"
#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/output.h"
#include "shared/base/progress.h"
#include "shared/shard/shard_set.h"

namespace retina {
namespace {

// Runs `read`, which reads what lies in the part.
template <class Read>
auto of_part(const std::string& output, const PackPart& part, const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData && error.kind() != ErrorKind::kNoInput) throw;
    throw Error(error.kind(), cat("part ", part.text(), ": ", error.what()),
                cat("remove ", part_folder(output, part), ", pack it again with --part ",
                    part.text(), ", then merge"));
  }
}

// All parts, in order. Throws kNoInput where some are not finished, naming them.
std::vector<PackPart> all_parts(const std::string& output) {
  const std::vector<PackPart> begun = begun_parts(output);
  if (begun.empty()) {
    throw Error(ErrorKind::kNoInput, cat(output, ": holds no parts to merge"),
                "pack them: coco-pack --part 1/N ... --output OUTPUT, up to N/N");
  }
  const std::size_t count = begun.front().count;
  check_part_count(output, count);
  constexpr std::size_t kNamed = 20;
  std::vector<PackPart> parts;
  std::string missing;
  std::size_t missing_count = 0;
  for (std::size_t number = 1; number <= count; ++number) {
    parts.push_back({.number = number, .count = count});
    if (path_exists(part_folder(output, parts.back()) + "/" + kManifestFile)) continue;
    if (++missing_count <= kNamed) missing += cat(missing.empty() ? "" : ", ", number);
  }
  if (missing_count == 0) return parts;
  throw Error(
      ErrorKind::kNoInput,
      cat(output, ": ", missing_count, " of ", count, " parts ", missing_count == 1 ? "is" : "are",
          " not packed (", missing, missing_count > kNamed ? ", ..." : "", ")"),
      cat("run coco-pack with --part K/", count,
          " for each and the other options of the finished parts, then --merge again"));
}

// Throws kConfig unless it is that part, made from the input of the first one.
void check_fits(const std::string& output, const PackPart& part, const Manifest& manifest,
                Manifest first) {
  first.options.pack_part = part.text();
  const std::string list = input_differences(first, manifest);
  if (list.empty()) return;
  throw Error(
      ErrorKind::kConfig,
      cat(output, ": part ", part.text(), " was packed with other options than part 1: ", list),
      cat("remove ", part_folder(output, part), " and pack it with the same options"));
}

PackResult publish_parts(const MergeOptions& options, const std::vector<PackPart>& parts) {
  const std::string& output = options.output;
  keep_finished(output, 0);
  std::deque<FolderLock> locks;  // nobody packs them again meanwhile; they need not move
  Manifest first;
  std::int64_t record_count = 0;
  for (const PackPart& part : parts) {
    const std::string folder = part_folder(output, part);
    locks.emplace_back(folder);
    const Manifest manifest = of_part(output, part, [&] { return read_manifest(folder); });
    if (part.number == 1) first = manifest;
    check_fits(output, part, manifest, first);
    record_count += manifest.counts.images;
  }
  first.options.pack_part.clear();

  NewSet set(first.categories.size());
  set.facts.emplace(first.categories.size());
  Progress progress("merging", record_count, "records");
  for (const PackPart& part : parts) {
    of_part(output, part, [&] {
      set.add(ShardSet(part_folder(output, part), options.scratch), options.scratch,
              [&] { progress.update(std::ssize(set.index)); });
    });
  }
  progress.finish();
  if (set.index.empty()) fail_without_images(set.quarantined, output);
  return publish_new_set(set,
                         {.folder = output, .begun = first, .thread_count = options.thread_count});
}

PackResult finished(const MergeOptions& options) {
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
    result = as_io_error([&] { return publish_parts(options, parts); });
  }
  // Where locks of parts kept their folders.
  remove_leftovers(options.output);
  return result;
}

void check_part_count(const std::string& output, std::size_t count) {
  for (const PackPart& other : begun_parts(output)) {
    if (other.count == count) continue;
    throw Error(ErrorKind::kConfig,
                cat(output, ": is packed in ", other.count, " parts (got ", count, ")"),
                cat("use the same number, or remove ", journal_folder(output), " to begin afresh"));
  }
}

}  // namespace retina
