// What an interrupted packing leaves behind so that the next run continues it: OUTPUT/.packing with
// the options and, for each finished shard, the shard and a note beside it; at the very end the
// whole new set, manifest last. A set that --overwrite replaces stays beside it until then. The
// parts of a set that is packed in parts lie there, too, until they are merged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "preprocess/options.h"
#include "preprocess/source_images.h"
#include "shared/base/error.h"
#include "shared/shard/manifest.h"
#include "shared/shard/quarantine.h"

namespace retina {

// What decides the bytes of a set, except for the images, which are compared one by one, is in its
// manifest: the annotations' size and hash, and the options. Throws kConfig listing what of these
// differs, kData where it is another part; `folder` begins the message.
void check_same_input(const std::string& folder, const Manifest& there, const Manifest& wanted);
// The list of what differs: "quality (was 90, now 80)"; empty: nothing.
std::string input_differences(const Manifest& there, const Manifest& wanted);

// The error where the set's input images are others now; `change` says which and how.
Error changed_input_images(const std::string& folder, const std::string& change);

// Where in the plan a shard begins.
struct PlanPlace {
  std::size_t image = 0;
  std::size_t tile = 0;  // of that image, by tiles_of(); 0: all of it is still to do
};

// A shard that needs no more work.
struct FinishedShard {
  ManifestShard shard{};  // file.name is empty: the final name needs the number of shards
  PlanPlace next{};       // what comes after this shard
  std::vector<QuarantinedImage> quarantined{};  // since the shard before
  std::vector<SourceFile> sources{};  // the files of the images that it has records of, in order
};

class PackJournal {
 public:
  // Opens OUTPUT/.packing or starts it for a set with the input of `wanted`. One that was begun
  // with other options, or that holds shards but not what they were packed with, is removed with
  // `overwrite`; else throws kConfig, kData.
  PackJournal(const std::string& output, const Manifest& wanted, bool overwrite);

  // Call when the shard lies at journal_shard_path().
  void add(std::size_t shard, const FinishedShard& finished) const;

  // The notes of shards 0, 1, ... up to the first one without a whole note. Whether the shards
  // themselves are whole, and of today's images, is the caller's question.
  std::vector<FinishedShard> read() const;

  // Removes everything from this shard on.
  void forget_from(std::size_t shard) const;

 private:
  std::string folder_;
};

// OUTPUT/.packing, and the path in it of shard number `shard` before the set is published.
std::string journal_folder(const std::string& output);
std::string journal_shard_path(const std::string& output, std::size_t shard);

// The input that the journal of `output` was begun with; nothing where it has none, or another
// version's.
std::optional<Manifest> journal_input(const std::string& output);

// The folder in OUTPUT/.packing of a part (--part), which is a set of its own, and the parts that
// have one, in order.
std::string part_folder(const std::string& output, const PackPart& part);
std::vector<PackPart> begun_parts(const std::string& output);

// A file there for bytes_before_part(), and its removal with those of the other parts.
std::string sizes_path(const std::string& output, const PackPart& part);
void remove_sizes(const std::string& output);

// Starts the journal of a merge: removes all but the parts. Throws kIo.
void begin_merge(const std::string& output, const Manifest& input);

// Removes the parts' folders; errors do not matter.
void remove_parts(const std::string& output);

// Throws kIo when the journal is gone, and with it the output folder or its mount.
void check_journal_present(const std::string& output);

// Whose OUTPUT/.packing is: ours when its options or its first note carry our seal, or when it
// holds nothing else but these options half written, what parts have there, and droppings
// (file_spelling.h).
enum class JournalKind { kNone, kOurs, kForeign };
JournalKind journal_kind(const std::string& output);

// Of a foreign one that has what parts have there, what makes it foreign; else empty.
std::string foreign_beside_parts(const std::string& output);

// Removes OUTPUT/.packing, its options last: what is left at any moment is known as ours. Errors do
// not matter.
void remove_journal(const std::string& output);

}  // namespace retina
