// One large image -> its tiles. It is read by rows, so memory holds one row of tiles, however large
// the image is. Runs on every decode thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "preprocess/made_record.h"
#include "preprocess/source_images.h"
#include "preprocess/tile_plan.h"
#include "shared/image/image.h"
#include "shared/image/row_reader.h"

namespace retina {

// Most bytes of pixels that a thread holds for an image of that width.
std::uint64_t tile_row_bytes(int image_width, const TileRule& rule);

class TileMaker {
 public:
  TileMaker(const ManifestOptions& options, const ImageSource& images);

  // Gives the image's tiles, those of plan_tiles() from number `first_tile` on, to `put`, or one
  // that says what is wrong with the image. With --check full all of the image is decoded before
  // its first tile is made, so that none of a damaged one is in the set. With --check header damage
  // shows only when some tiles may be in a shard: it throws kData, naming file, tile and row, and
  // ends the packing, as does a file that changes meanwhile. Else as RecordMaker::make.
  void make(const PlannedImage& planned, std::size_t first_tile, const PutRecord& put);

  // As RecordMaker::fault_of.
  std::optional<QuarantinedImage> fault_of(const PlannedImage& planned) const;

 private:
  // An image that can be packed.
  struct Opened {
    std::string path{};
    std::string found_as{};
    std::int64_t modified_ns = 0;
    bool is_jpeg = false;  // else another format
  };
  std::optional<FileProblem> open(const PlannedImage& planned, Opened& out) const;
  std::optional<FileProblem> check_pixels(const PlannedImage& planned, const Opened& opened) const;
  MadeRecord make_tile(const PlannedImage& planned, const PlannedTile& tile, const Opened& opened,
                       const Image& rows) const;

  ManifestOptions options_;
  SourceImages images_;
};

}  // namespace retina
