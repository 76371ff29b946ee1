// manifest.json: the description of a shard set. Written last: a folder without one is not a data
// set. The fields are described in FORMAT.md.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/choices.h"
#include "shared/base/task.h"
#include "shared/coco/categories.h"
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

// A file of the set with its expected size and hash.
struct ManifestFile {
  std::string name{};
  std::uint64_t size_bytes = 0;
  std::uint64_t xxh3 = 0;  // hash of the whole file
};

struct ManifestShard {
  ManifestFile file{};
  std::int64_t record_count = 0;
  std::uint64_t tree_xxh3 = 0;  // hash of LMDB's own pages, see shard_tree.h
};

// Treatment of a JPEG whose EXIF data say that it is stored rotated.
enum class ExifPolicy { kIgnore, kApply, kError };
inline const Choices<ExifPolicy> kExifPolicies = {
    {"ignore", ExifPolicy::kIgnore}, {"apply", ExifPolicy::kApply}, {"error", ExifPolicy::kError}};

// Extent of the check of a JPEG before it was packed.
enum class ImageCheck { kFull, kHeader };
inline const Choices<ImageCheck> kImageChecks = {{"full", ImageCheck::kFull},
                                                 {"header", ImageCheck::kHeader}};

// The packing options that decide the bytes; threads and paths do not.
struct ManifestOptions {
  std::uint64_t shard_size_bytes = 0;
  int max_side_px = 0;                            // 0: no image is made smaller
  int quality = 0;                                // quality of JPEGs encoded here; 0 if none is
  ImageEncoding encoding = ImageEncoding::kJpeg;  // format of images encoded here
  bool convert = false;                           // PNG, TIFF and WebP are converted
  ExifPolicy exif = ExifPolicy::kIgnore;
  ImageCheck check = ImageCheck::kFull;
  std::string stretch{};  // percentiles of samples above 8 bits, "2,98"; empty: the upper 8 bits
  std::string part{};     // --split's: "train 0.9", "validation 0.9 by folder"; empty: all images
  std::optional<TileRule> tile{};  // the records are tiles
  std::string pack_part{};         // a part that waits for its merge: "2/3"; empty: a whole set

  friend bool operator==(const ManifestOptions&, const ManifestOptions&) = default;
};

// Counts of a set; those of boxes are 0 in a classification set. In a set of tiles, all but the
// last group are about tiles and the boxes in them: an object is counted in each tile that shows
// some of it.
struct ManifestCounts {
  std::int64_t images = 0;      // records
  std::int64_t boxes = 0;       // all annotations of these images
  std::int64_t crowds = 0;      // crowds among them
  std::int64_t degenerate = 0;  // others among them, without width or height to train on
  std::int64_t trainable = 0;   // boxes - crowds - degenerate - partial
  std::int64_t images_without_boxes = 0;
  std::int64_t rescaled = 0;     // images made smaller by max_side_px
  std::int64_t converted = 0;    // images encoded here because of convert or exif
  std::int64_t quarantined = 0;  // images, never tiles
  // Counts of a set of tiles alone.
  std::int64_t tiled_images = 0;  // images that the tiles come from
  std::int64_t whole_boxes = 0;   // boxes of these images, each once
  std::int64_t partial = 0;       // boxes with too little of them in their tile
  std::int64_t cut = 0;           // boxes to train on that end at a tile's edge inside the image

  // Returns the number of the source's images that are in the set.
  std::int64_t source_images() const { return tiled_images > 0 ? tiled_images : images; }

  friend bool operator==(const ManifestCounts&, const ManifestCounts&) = default;
};

// Sizes of the boxes of a set that training learns, relative to their images, so that choosing
// anchors reads no record.

// A bin in quarters of an octave, rounded. Part of the format.
struct BoxBin {
  int width = 0, height = 0;  // the box's, relative to its image's shorter side
  int aspect = 0;             // the image's: width / height

  friend auto operator<=>(const BoxBin&, const BoxBin&) = default;
};

inline int quarter_octaves(double ratio) {
  return static_cast<int>(std::lround(4 * std::log2(ratio)));
}
inline double ratio_of(int quarter_octaves) {
  return std::exp2(quarter_octaves / 4.0);
}

// Number of boxes in each bin that has any.
using BoxHistogram = std::map<BoxBin, std::int64_t>;

// Returns the bin of a box. `box` x1, y1, x2, y2 of training_box() (record.h): at least 2^-20 of
// the image.
inline BoxBin bin_of(const std::array<float, 4>& box, int image_width, int image_height) {
  const double shorter = std::min(image_width, image_height);
  return {.width = quarter_octaves((box[2] - box[0]) / shorter),
          .height = quarter_octaves((box[3] - box[1]) / shorter),
          .aspect = quarter_octaves(static_cast<double>(image_width) / image_height)};
}

struct Manifest {
  Task task = Task::kDetection;              // the task that its records are labelled for
  std::uint64_t annotations_size_bytes = 0;  // the source file
  std::uint64_t annotations_xxh3 = 0;
  ManifestOptions options{};
  Categories categories{};  // ascending ids
  // By category: all annotations of the packed images, or a classification set's images.
  std::vector<std::int64_t> label_counts{};
  ManifestCounts counts{};
  BoxHistogram box_sizes{};  // sizes of the counts.trainable boxes
  std::vector<ManifestShard> shards{};
  // Notes on its annotations to read before training (set_notes.h): sentences, mostly none.
  std::vector<std::string> notes{};
  ManifestFile index{}, quarantine{};

  int class_count() const { return static_cast<int>(categories.size()); }
};

// Write and read the options as fields of a JSON object. Reading throws kData.
void write_manifest_options(JsonWriter& json, const ManifestOptions& options);
ManifestOptions read_manifest_options(const JsonView& view);

// Returns the text of manifest.json; its last field is the hash of the rest.
std::string encode_manifest(const Manifest& manifest);

// Returns the identity of the data set, for comparisons of inputs by content: 16 hexadecimal
// digits.
std::string manifest_hash(const Manifest& manifest);

// Parses a manifest. Errors begin with `name`. Throws kData: not JSON, another format or version, a
// damaged text, names or sizes of files that coco-pack does not write.
Manifest decode_manifest(std::string_view text, const std::string& name);

// Reads FOLDER/manifest.json. Throws kNoInput if the folder or the manifest is missing.
Manifest read_manifest(const std::string& folder);

// Throws kConfig, beginning with `folder`, if the set is for another task than `wanted`. Call it
// before training on a set or evaluating with it.
void check_task(const Manifest& manifest, Task wanted, const std::string& folder);

// Returns true if the file is one of our manifests, even a damaged one: a file of that name may not
// be ours.
bool is_manifest(const std::string& path);

// Returns "shard-00003-of-00012.lmdb".
std::string shard_file_name(std::size_t shard, std::size_t shard_count);
bool is_shard_file_name(const std::string& name);

}  // namespace retina
