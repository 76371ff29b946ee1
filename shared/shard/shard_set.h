// A packed data set, open for reading: manifest, index and shards. Training, evaluation and
// coco-pack --inspect read data through it alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/shard/image_index.h"
#include "shared/shard/manifest.h"
#include "shared/shard/quarantine.h"
#include "shared/shard/record.h"
#include "shared/shard/stager.h"

namespace retina {

class RemoteFolder;

// The set that a record is of. Both references must outlive it.
struct RecordSource {
  const std::string& folder;
  const Manifest& manifest;
};

// Decodes the record of `entry` and compares it with the entry and the set's classes. `bytes` must
// outlive its image. Throws kData naming shard and record.
Record decode_indexed_record(std::string_view bytes, const IndexEntry& entry,
                             const RecordSource& source);

// Throws kData, beginning with `name`, unless the index lists every record of the manifest's shards
// exactly once and in order, with classes that fit the set's task and categories.
void check_index(const ImageIndex& index, const Manifest& manifest, const std::string& name);

// Returns the text of manifest.json behind a URL, for decode_manifest(). A text that
// decode_manifest() refuses is requested again, twice, as not every response states its length;
// then it is returned as it is. Throws as RemoteFolder::read.
std::string read_manifest_text(const RemoteFolder& folder);

class ShardSet {
 public:
  // Reads manifest and index and checks every file's size: a truncated LMDB file would end the
  // process with SIGBUS later. `scratch`: the folder for copies of shards (ShardCopies) if their
  // mount cannot map files; empty: $TMPDIR. Throws kNoInput (folder, manifest or a shard is
  // missing), kData (damaged, cut, or written by a newer version).
  //
  // `folder` may be a URL (shared/remote/remote_access.h). Its index is copied to the scratch
  // folder at once and its shards when a record of them is read, unless they are there already. If
  // the copies would exceed `limit_bytes` (StageOptions; 0 counts as unset), those not used for
  // longest are removed, and downloaded again on their next use. Throws kUsage, too, as
  // RemoteFolder does, and ScratchError (shard_copies.h).
  explicit ShardSet(const std::string& folder, const std::string& scratch = "",
                    std::optional<std::uint64_t> limit_bytes = {});
  ~ShardSet();
  ShardSet(ShardSet&&) noexcept;
  ShardSet& operator=(ShardSet&&) noexcept;

  // Returns the folder as messages name it: of a URL public_url().
  const std::string& folder() const;
  const Manifest& manifest() const;
  const ImageIndex& index() const;

  // Returns the record of index()[index_place], opening its shard on first use. Thread-safe; the
  // record's `image` is valid while the ShardSet lives, and from a URL while the record lives.
  // Throws kData naming shard and record if a hash does not match or the index disagrees, kIo if
  // the shard is gone, cannot be read, or could not be copied to the scratch folder.
  Record read(std::size_t index_place) const;

  // Begins to copy shards to `scratch` on a thread of its own. `shards` returns their places in the
  // manifest, in the order of use; a record is read from its shard's copy once there is one. Does
  // nothing, and does not call `shards`, unless `options` or the mount gives a reason
  // (reason_to_stage()) and there is a `scratch`; a URL is a reason, and needs no `scratch`. Call
  // once.
  void stage_ahead(const std::function<std::vector<std::size_t>()>& shards,
                   const StageOptions& options);

  // Returns the quarantined images. Throws kData if the file does not match the manifest's
  // checksum.
  std::vector<QuarantinedImage> read_quarantine() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace retina
