// manifest.json: what a shard set consists of. Written last: a folder without one is not a data
// set. The fields are described in FORMAT.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/choices.h"
#include "shared/base/task.h"
#include "shared/coco/category.h"
#include "shared/shard/box_histogram.h"
#include "shared/shard/record.h"
#include "shared/shard/tile.h"

namespace retina {

class JsonView;
class JsonWriter;

// "version" in manifest.json. Part of the format; never renumber.
inline constexpr std::int64_t kManifestVersion = 3;
inline constexpr const char* kManifestFile = "manifest.json";
inline constexpr const char* kIndexFile = "index.bin";
inline constexpr const char* kQuarantineFile = "quarantine.jsonl";

// A file of the set and what it must look like.
struct ManifestFile {
  std::string name{};
  std::uint64_t size_bytes = 0;
  std::uint64_t xxh3 = 0;  // of the whole file
};

struct ManifestShard {
  ManifestFile file{};
  std::int64_t record_count = 0;
  std::uint64_t tree_xxh3 = 0;  // of LMDB's own pages, see shard_tree.h
};

// What becomes of a JPEG whose EXIF data say that it is stored rotated.
enum class ExifPolicy { kIgnore, kApply, kError };
inline const Choices<ExifPolicy> kExifPolicies = {
    {"ignore", ExifPolicy::kIgnore}, {"apply", ExifPolicy::kApply}, {"error", ExifPolicy::kError}};

// How much of a JPEG was looked at before it was packed.
enum class ImageCheck { kFull, kHeader };
inline const Choices<ImageCheck> kImageChecks = {{"full", ImageCheck::kFull},
                                                 {"header", ImageCheck::kHeader}};

// The packing options that decide the bytes; threads and paths do not.
struct ManifestOptions {
  std::uint64_t shard_size_bytes = 0;
  int max_side_px = 0;                            // 0: no image is made smaller
  int quality = 0;                                // of JPEGs that are made here; 0 where none is
  ImageEncoding encoding = ImageEncoding::kJpeg;  // of the images that are made here
  bool convert = false;                           // PNG, TIFF and WebP are taken
  ExifPolicy exif = ExifPolicy::kIgnore;
  ImageCheck check = ImageCheck::kFull;
  std::string stretch{};  // percentiles of samples above 8 bits, "2,98"; empty: the upper 8 bits
  std::string part{};     // of --split: "train 0.9", "validation 0.9 by folder"; empty: all images
  std::optional<TileRule> tile{};  // the records are tiles
  std::string pack_part{};         // of a part that waits for its merge: "2/3"; empty: a whole set

  friend bool operator==(const ManifestOptions&, const ManifestOptions&) = default;
};

// Of a classification set, those of boxes are 0. In a set of tiles, all but the last group are
// about tiles and the boxes in them: an object is counted in each tile that shows some of it.
struct ManifestCounts {
  std::int64_t images = 0;      // records
  std::int64_t boxes = 0;       // all annotations of these images
  std::int64_t crowds = 0;      // of them
  std::int64_t degenerate = 0;  // of them: not a crowd, and no width or height to train on
  std::int64_t trainable = 0;   // boxes - crowds - degenerate - partial
  std::int64_t images_without_boxes = 0;
  std::int64_t rescaled = 0;     // images made smaller by max_side_px
  std::int64_t converted = 0;    // images that were made by convert or exif
  std::int64_t quarantined = 0;  // images, never tiles
  // Of a set of tiles alone.
  std::int64_t tiled_images = 0;  // that the tiles come from
  std::int64_t whole_boxes = 0;   // of these images, each once
  std::int64_t partial = 0;       // boxes that their tile shows too little of
  std::int64_t cut = 0;           // boxes to train on that end at a tile's edge inside the image

  // Of the source that are in the set.
  std::int64_t source_images() const { return tiled_images > 0 ? tiled_images : images; }

  friend bool operator==(const ManifestCounts&, const ManifestCounts&) = default;
};

struct Manifest {
  Task task = Task::kDetection;              // what its records are labelled for
  std::uint64_t annotations_size_bytes = 0;  // the source file
  std::uint64_t annotations_xxh3 = 0;
  ManifestOptions options{};
  Categories categories{};  // ascending ids
  // By category: all annotations of the packed images, or a classification set's images.
  std::vector<std::int64_t> label_counts{};
  ManifestCounts counts{};
  BoxHistogram box_sizes{};  // of counts.trainable boxes
  std::vector<ManifestShard> shards{};
  // Of its annotations, what to know before training (set_notes.h): sentences, mostly none.
  std::vector<std::string> notes{};
  ManifestFile index{}, quarantine{};

  int class_count() const { return static_cast<int>(categories.size()); }
};

// The options as fields of a JSON object, and back. Throws kData.
void write_manifest_options(JsonWriter& json, const ManifestOptions& options);
ManifestOptions read_manifest_options(const JsonView& view);

// The text of manifest.json; its last field is the hash of the rest.
std::string encode_manifest(const Manifest& manifest);

// Which data set it is, for whoever compares inputs by content: 16 hexadecimal digits.
std::string manifest_hash(const Manifest& manifest);

// Errors begin with `name`. Throws kData: not JSON, another format or version, a damaged text,
// names or sizes of files that coco-pack does not write.
Manifest decode_manifest(std::string_view text, const std::string& name);

// Reads FOLDER/manifest.json. Throws kNoInput when the folder or the manifest is missing.
Manifest read_manifest(const std::string& folder);

// Throws kConfig, beginning with `folder`, where the set is for another task than `wanted`. Who
// trains on a set or evaluates with it calls this.
void check_task(const Manifest& manifest, Task wanted, const std::string& folder);

// Whether the file is one of our manifests, even a damaged one: a file of that name may be
// anybody's.
bool is_manifest(const std::string& path);

// "shard-00003-of-00012.lmdb".
std::string shard_file_name(std::size_t shard, std::size_t shard_count);
bool is_shard_file_name(const std::string& name);

}  // namespace retina
