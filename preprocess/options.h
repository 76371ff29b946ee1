// Options of coco-pack.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "preprocess/formats/annotation_source.h"
#include "preprocess/source_images.h"
#include "shared/shard/manifest.h"

namespace retina {

// Effect of a bad image: it is set aside with its reason, or it ends the packing.
enum class BadImage { kQuarantine, kFail };

// One of the two sets that --split makes. An image belongs to the training set when the place of
// its group is below `train_share`: an image that is added later moves no other. keep_side() has
// an exception.
struct SplitSide {
  double train_share = 1;
  bool is_train = true;

  std::string folder() const { return is_train ? "train" : "validation"; }
  std::string text() const;                          // "train 0.9"
  static double place_of(const std::string& group);  // its xxh3 / 2^64
};

// One of the parts that a set is packed in by as many processes: `--part NUMBER/COUNT`.
struct PackPart {
  std::size_t number = 1, count = 1;  // number counts from 1

  std::string text() const;  // "3/8"
  friend bool operator==(const PackPart&, const PackPart&) = default;
};

inline constexpr std::size_t kMaxParts = 10000;

struct PackOptions {
  AnnotationFormat format = AnnotationFormat::kCoco;
  std::string annotations{};  // a file or folder, as `format` says
  std::string classes{};      // a file of classes, as AnnotationSource's
  std::string images{};       // folder that file names are relative to; CIFAR-10: or a batch file
  std::string output{};       // folder of the shard set
  std::string scratch{};      // local disk to build shards on; empty: beside the output
  std::uint64_t shard_size_bytes = std::uint64_t{256}
                                   << 20;  // one file; staging and lanes cut here
  int threads = 0;                         // decoding; 0: one per core
  std::optional<int> max_side_px{};        // re-encode larger images down to this; unset: never
  std::optional<int> quality{};            // JPEGs that are made here: 1..100; 90 when unset
  ImageEncoding encoding = ImageEncoding::kJpeg;  // format of images made here
  bool convert = false;                           // take PNG, TIFF and WebP
  std::string stretch{};  // "2,98": percentiles that samples above 8 bits are stretched between
  ExifPolicy exif = ExifPolicy::kIgnore;
  ImageCheck check = ImageCheck::kFull;
  std::optional<int> tile_px{};  // cut images into tiles of this side; unset: never
  std::optional<double> tile_overlap{}, tile_visibility{}, tile_empty{};  // as TileRule's
  std::optional<double> split{};    // share of the images for OUTPUT/train; sets() has both
  std::string split_by{};           // "folder" or a pattern of file names: what stays together
  std::optional<SplitSide> side{};  // side of the split that this set is
  std::string part{};  // "3/8": pack this part alone, for merge_parts(); part_of() has the numbers
  int parts = 0;       // pack in so many processes of this machine; 0: in this one
  BadImage on_bad_image = BadImage::kQuarantine;
  bool overwrite = false;  // replace what the output folder holds

  // Throws kUsage / kConfig.
  void validate() const;

  int thread_count() const;
  // Returns the sets to pack: this one, or with `split` those in OUTPUT/train and
  // OUTPUT/validation.
  std::vector<PackOptions> sets() const;
  bool encodes() const { return max_side_px || convert || exif == ExifPolicy::kApply || tile_px; }
  // Returns the rule of --tile, if given; a set to validate on keeps all empty tiles: whole images
  // are scored.
  std::optional<TileRule> tile_rule() const;
  // Returns the numbers of --part; nothing where it is empty or wrong.
  std::optional<PackPart> part_of() const;
  // Larger image files are bad, but for tiles, which are read by rows from files of any size.
  ImageSource image_source() const;
  AnnotationSource annotation_source() const;
  // Returns the path that lists the images, for messages: --annotations, or --images without it.
  const std::string& input() const { return annotations.empty() ? images : annotations; }
  // The folder that images' names are relative to.
  std::string images_folder() const;
  // Those that decide the bytes.
  ManifestOptions manifest_options() const;
};

// `--inspect`.
struct InspectOptions {
  std::string folder{};                    // or URL
  std::string scratch{};                   // as in ShardSet
  std::optional<std::int64_t> image_id{};  // show this image's record
  std::string image_file{};                // or that of the image with this file name; both agree
  std::string draw{};                      // and write it as a JPEG with its boxes
  std::string export_annotations{};        // write all labels as COCO instances JSON

  bool shows_image() const { return image_id.has_value() || !image_file.empty(); }

  void validate() const;
};

}  // namespace retina
