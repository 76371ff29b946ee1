#include "preprocess/new_set.h"

#include <set>
#include <unordered_map>
#include <utility>

#include "preprocess/output_folder.h"
#include "preprocess/page/data_page.h"
#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/log.h"
#include "shared/base/printable.h"
#include "shared/base/signals.h"
#include "shared/shard/damaged.h"
#include "shared/shard/shard_file.h"

namespace retina {
namespace {

ManifestFile write_file(const std::string& folder, const char* name, const std::string& bytes) {
  write_file_atomically(folder + "/" + name, bytes);
  return {.name = name, .size_bytes = bytes.size(), .xxh3 = xxh3(bytes)};
}

// Renders the page (page/data_page.h). The set is the product: it is published without its page
// where that cannot be made, with a warning.
std::optional<std::string> try_data_page(const NewSet& set, const NewSetOutput& output) {
  std::unordered_map<std::int64_t, std::size_t> place_of;
  for (std::size_t i = 0; i < set.index.size(); ++i) place_of.emplace(set.index[i].image_id, i);
  try {
    return render_data_page(
        {.facts = *set.facts,
         .manifest = set.described(output.begun),
         .quarantined = set.quarantined,
         .file_name =
             [&](std::int64_t id) { return std::string(set.index[place_of.at(id)].file_name); },
         .thread_count = output.thread_count});
  } catch (const Error& error) {
    log_warning("cannot write the data page: ", error.what());
    return std::nullopt;
  }
}

// Writes the page into the journal of `output`, to be published with the set; a failure is a
// warning. Without a page, the page of an older set in `output` is removed, before the new set
// takes its place.
void write_data_page(const std::string& output, const std::optional<std::string>& page) {
  try {
    if (page) return write_file_atomically(journal_folder(output) + "/" + kDataPageFile, *page);
  } catch (const Error& error) {
    log_warning("cannot write the data page: ", error.what());
  }
  const std::string old = output + "/" + kDataPageFile;
  if (path_exists(old) && is_data_page(old)) remove_file(old);
}

}  // namespace

void NewSet::count(const Record& record, std::uint64_t image_xxh3, const RecordPlace& at) {
  tally.add(record);
  if (facts) facts->add(record, image_xxh3);
  index.push_back(index_entry(record, image_xxh3, at, entry_labels(record)));
}

void NewSet::add(const ShardSet& part, const std::string& scratch,
                 const std::function<void()>& on_record) {
  constexpr std::size_t kRecordsAtOnce = 64;
  for (const ManifestShard& shard : part.manifest().shards) {
    const std::string path = part.folder() + "/" + shard.file.name;
    const ShardFile reader(part.folder(), shard, scratch);
    if (xxh3(reader.content()) != shard.file.xxh3) {
      fail_damaged(path, "is damaged (its checksum does not match)");
    }
    for (std::size_t place = 0; place < reader.size(); ++place) {
      check_stop(part.folder());
      if (place % kRecordsAtOnce == 0) reader.forget_pages();
      const Record record = decode_record(reader.bytes(place), cat(path, ": record ", place));
      count(record, xxh3(record.image),
            {.shard = static_cast<std::uint32_t>(shards.size()),
             .place = static_cast<std::uint32_t>(place)});
      on_record();
    }
    shards.push_back(shard);
  }
  for (QuarantinedImage& bad : part.read_quarantine()) quarantined.push_back(std::move(bad));
}

Manifest NewSet::described(const Manifest& begun) const {
  Manifest manifest = begun;
  manifest.label_counts = tally.label_counts;
  manifest.counts = tally.counts;
  manifest.box_sizes = tally.box_sizes;
  manifest.counts.quarantined = std::ssize(quarantined);
  return manifest;
}

Manifest NewSet::write(const std::string& folder, const Manifest& begun,
                       const std::function<void()>& write_page) const {
  Manifest manifest = described(begun);
  manifest.shards = shards;
  for (std::size_t shard = 0; shard < shards.size(); ++shard) {
    manifest.shards[shard].file.name = shard_file_name(shard, shards.size());
  }
  manifest.index = write_file(folder, kIndexFile, encode_index(index));
  manifest.quarantine = write_file(folder, kQuarantineFile, encode_quarantine(quarantined));
  write_page();
  write_file_atomically(folder + "/" + kManifestFile, encode_manifest(manifest));
  return manifest;
}

PackResult publish_new_set(const NewSet& set, const NewSetOutput& output) {
  // While the last shard is finished.
  std::optional<std::string> page;
  if (output.has_page) page = try_data_page(set, output);
  output.await_shards();
  // What the set needs is written before its page, which may find the disk full.
  const Manifest manifest = set.write(journal_folder(output.folder), output.begun,
                                      [&] { write_data_page(output.folder, page); });
  publish_set(output.folder, manifest);

  const Uncovered uncovered = count_uncovered(set.facts->box_sizes(), default_anchor_sizes());
  return {.manifest = manifest,
          .far_from_anchors = uncovered.all(),
          .tile_advice = tile_advice(*set.facts, manifest, uncovered),
          .lost_in_tiles = lost_in_tiles(*set.facts, manifest.categories),
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

}  // namespace retina
