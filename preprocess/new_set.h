// A set while its shards are made: what its manifest, index, quarantine and page say is counted
// record by record, and published at the end. Packing (set_builder.h) and merging parts (merge.h)
// use the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "preprocess/packer.h"
#include "preprocess/page/data_facts.h"
#include "preprocess/tally.h"
#include "shared/shard/image_index.h"
#include "shared/shard/manifest.h"
#include "shared/shard/quarantine.h"
#include "shared/shard/shard_set.h"

namespace retina {

struct NewSet {
  explicit NewSet(std::size_t class_count) : tally(class_count) {}

  // Counts the next record; `record.image` is the stored one, with its hash.
  void count(const Record& record, std::uint64_t image_xxh3, const RecordPlace& at);

  // Adds the shards of a set, its quarantined images and all that its records say. Each shard is
  // compared with its hash before its first record is counted, and `on_record` called behind each
  // record. `scratch` as in ShardFile. Throws kData (damage), kNoInput, kIo, kInterrupted.
  void add(
      const ShardSet& part, const std::string& scratch,
      const std::function<void()>& on_record = [] {});

  // Writes index, quarantine and, behind `write_page`, the manifest to `folder`, where the shards
  // have the names of its manifest, or will. `begun` is what is known of the manifest before.
  Manifest write(
      const std::string& folder, const Manifest& begun,
      const std::function<void()>& write_page = [] {}) const;

  // The manifest without its files.
  Manifest described(const Manifest& begun) const;

  Tally tally;
  std::optional<DataFacts> facts{};     // for a page
  std::vector<ManifestShard> shards{};  // their file names are given by write()
  ImageIndex index{};
  std::vector<QuarantinedImage> quarantined{};
};

struct NewSetOutput {
  std::string folder{};   // locked and ours
  const Manifest& begun;  // the manifest as known before the images are read
  bool has_page = true;
  int thread_count = 1;
  std::function<void()> await_shards = [] {};  // called when all but shards is ready
};

// Completes the set, which has facts, in the journal of its folder, beside the one that the folder
// may hold; only a whole one takes its place. Throws kIo.
PackResult publish_new_set(const NewSet& set, const NewSetOutput& output);

// Throws kData: none of the images is usable. `images` is where they were looked for.
[[noreturn]] void fail_without_images(const std::vector<QuarantinedImage>& quarantined,
                                      const std::string& images);

}  // namespace retina
