// A set while its shards are made: what its manifest, index, quarantine and page say is counted
// record by record, and published at the end. Packing (set_builder.h) and merging parts (merge.h)
// use the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "preprocess/packer.h"
#include "preprocess/page/data_facts.h"
#include "preprocess/tally.h"
#include "shared/shard/image_index.h"
#include "shared/shard/manifest.h"
#include "shared/shard/quarantine.h"

namespace retina {

struct NewSet {
  explicit NewSet(std::size_t class_count) : tally(class_count), facts(class_count) {}

  // The next record; `record.image` is the stored one, with its hash.
  void count(const Record& record, std::uint64_t image_xxh3, const RecordPlace& at);

  Tally tally;
  DataFacts facts;
  std::vector<ManifestShard> shards{};  // their file names are given by publish_new_set()
  ImageIndex index{};
  std::vector<QuarantinedImage> quarantined{};
};

struct NewSetOutput {
  std::string folder{};   // locked and ours
  const Manifest& begun;  // what is known of the manifest before the images are read
  const Categories& categories;
  std::function<std::string(std::int64_t image_id)> file_name{};
  bool has_page = true;
  int thread_count = 1;
  std::function<void()> await_shards = [] {};  // called when all but shards is ready
};

// Completes the set in the journal of its folder, beside the one that the folder may hold; only a
// whole one takes its place. Throws kIo.
PackResult publish_new_set(NewSet& set, const NewSetOutput& output);

// Throws kData: none of the images is usable. `images` is where they were looked for.
[[noreturn]] void fail_without_images(const std::vector<QuarantinedImage>& quarantined,
                                      const std::string& images);

// Where the shards of `output` are built: `scratch`, or, where the output's file system cannot map
// files, a default, with a warning; empty: in its journal.
std::string building_folder(const std::string& scratch, const std::string& output);

}  // namespace retina
