#include "preprocess/new_set.h"

#include <set>

#include "preprocess/output_folder.h"
#include "preprocess/pack_journal.h"
#include "preprocess/set_page.h"
#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/log.h"
#include "shared/base/mount.h"
#include "shared/base/output.h"
#include "shared/base/printable.h"

namespace retina {
namespace {

void write_file_of(const std::string& output, ManifestFile& file, const std::string& bytes) {
  write_file_atomically(journal_folder(output) + "/" + file.name, bytes);
  file.size_bytes = bytes.size();
  file.xxh3 = xxh3(bytes);
}

}  // namespace

void NewSet::count(const Record& record, std::uint64_t image_xxh3, const RecordPlace& at) {
  tally.add(record);
  facts.add(record, image_xxh3);
  index.push_back(index_entry(record, image_xxh3, at, entry_labels(record)));
}

PackResult publish_new_set(NewSet& set, const NewSetOutput& output) {
  Manifest manifest = output.begun;
  manifest.categories = output.categories;
  manifest.label_counts = set.tally.label_counts;
  manifest.counts = set.tally.counts;
  manifest.box_sizes = set.tally.box_sizes;
  manifest.counts.quarantined = std::ssize(set.quarantined);
  // While the last shard is finished.
  std::optional<std::string> page;
  if (output.has_page) {
    page = try_data_page({.facts = set.facts,
                          .manifest = manifest,
                          .quarantined = set.quarantined,
                          .file_name = output.file_name,
                          .thread_count = output.thread_count});
  }
  output.await_shards();
  for (std::size_t shard = 0; shard < set.shards.size(); ++shard) {
    set.shards[shard].file.name = shard_file_name(shard, set.shards.size());
  }
  manifest.shards = set.shards;
  // What the set needs is written before its page, which may find the disk full.
  manifest.index.name = kIndexFile;
  manifest.quarantine.name = kQuarantineFile;
  write_file_of(output.folder, manifest.index, encode_index(set.index));
  write_file_of(output.folder, manifest.quarantine, encode_quarantine(set.quarantined));
  write_data_page(output.folder, page);
  write_file_atomically(journal_folder(output.folder) + "/" + kManifestFile,
                        encode_manifest(manifest));
  publish_set(output.folder, manifest);

  const Uncovered uncovered = count_uncovered(set.facts.box_sizes(), default_anchor_sizes());
  return {.manifest = manifest,
          .far_from_anchors = uncovered.all(),
          .tile_advice = tile_advice(set.facts, manifest, uncovered),
          .lost_in_tiles = lost_in_tiles(set.facts, manifest.categories),
          .degenerate_annotations = set.tally.degenerate_annotations,
          .first_degenerate = set.tally.first_degenerate};
}

void fail_without_images(const std::vector<QuarantinedImage>& quarantined,
                         const std::string& images) {
  const std::size_t count = quarantined.size();
  const QuarantinedImage& first = quarantined.at(0);
  const auto hints = count_hints(quarantined);
  constexpr std::size_t kMostReasons = 4;
  std::set<std::string> reasons{first.reason};
  for (const QuarantinedImage& bad : quarantined) {
    if (reasons.size() == kMostReasons || !reasons.insert(bad.reason).second) continue;
    log_warning(escaped(bad.file_name), ": ", bad.reason);
  }
  throw Error(ErrorKind::kData,
              cat(images,
                  count == 1 ? std::string(": its only image is not usable (")
                             : cat(": none of the ", count, " images is usable (the first: "),
                  escaped(first.file_name), ": ", first.reason, ")"),
              hints.empty() ? "check --images" : hints.front().hint);
}

std::string building_folder(const std::string& scratch, const std::string& output) {
  if (!scratch.empty() || can_map_files(journal_folder(output))) return scratch;
  log_warning(output, ": this file system cannot map files into memory; shards are built in ",
              default_scratch(), " (--scratch chooses another place)");
  return default_scratch();
}

}  // namespace retina
