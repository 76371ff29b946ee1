// What an interrupted packing leaves behind so that the next run continues it: OUTPUT/.packing with
// the options and, for each finished shard, the shard and a note beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "shared/shard/manifest.h"
#include "shared/shard/quarantine.h"

namespace retina {

// What decides the bytes of a set, but for the images themselves.
struct PackIdentity {
  std::uint64_t annotations_size_bytes = 0, annotations_xxh3 = 0;
  ManifestOptions options{};
};

PackIdentity identity_of(const Manifest& manifest);

// Throws kConfig listing the options that differ; `folder` begins the message.
void check_same_identity(const std::string& folder, const PackIdentity& there,
                         const PackIdentity& wanted);

// A shard that needs no more work.
struct FinishedShard {
  ManifestShard shard{};       // file.name is empty: the final name needs the number of shards
  std::size_t next_image = 0;  // first image of the plan behind this shard
  std::vector<QuarantinedImage> quarantined{};  // since the shard before
};

class PackJournal {
 public:
  // Opens OUTPUT/.packing or starts it; `overwriting` is --images with --overwrite, else empty.
  // Throws kConfig when it was begun with other options, kData when it holds shards but not what
  // they were packed with.
  PackJournal(const std::string& output, const PackIdentity& identity,
              const std::string& overwriting);

  // Where it keeps its files.
  const std::string& folder() const { return folder_; }

  // Throws kIo when the journal has gone: with it the output folder or its mount.
  void check_present() const;

  // Path of shard number `shard` before the set is published.
  std::string shard_path(std::size_t shard) const;

  // Call when the shard lies at shard_path().
  void add(std::size_t shard, const FinishedShard& finished) const;

  // The notes of shards 0, 1, ... up to the first one without a whole note. Whether the shards
  // themselves are whole is the caller's question.
  std::vector<FinishedShard> read() const;

 private:
  std::string note_path(std::size_t shard) const;
  std::string folder_;
};

// Removes OUTPUT/.packing, if there: the set is published. Errors do not matter.
void remove_journal(const std::string& output);

// Whether OUTPUT holds no set but what an interrupted run with --overwrite, these options and these
// --images has finished: the same command goes on.
bool continues_overwrite(const std::string& output, const PackIdentity& identity,
                         const std::string& images);

// Removes every file that coco-pack makes in this folder, the manifest first.
void remove_packed_files(const std::string& output);

}  // namespace retina
