// One image -> its record, or its tiles', or the reason why not. Runs on every decode thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "preprocess/made_record.h"
#include "preprocess/source_images.h"
#include "preprocess/tile_maker.h"
#include "shared/image/image.h"
#include "shared/image/jpeg.h"

namespace retina {

// Not thread-safe: one per thread, it keeps the decoder's buffers.
class RecordMaker {
 public:
  RecordMaker(const ManifestOptions& options, const ImageSource& images);

  // Reads and checks the image; converts it, turns it upright, makes it smaller or cuts it into
  // tiles when the options ask for that. Gives its record to `put`, in a set of tiles those from
  // tile number `first_tile` on (TileMaker), or one that says what is wrong with the image. Throws
  // kIo when the image folder or its mount is gone or fails, kNoInput when the image may not be
  // read, and as TileMaker.
  void make(const PlannedImage& planned, std::size_t first_tile, const PutRecord& put);

  // Returns why the image is to be quarantined; nothing for one that can be packed. Throws as
  // make().
  std::optional<QuarantinedImage> fault_of(const PlannedImage& planned);

 private:
  MadeRecord make_whole(const PlannedImage& planned);
  std::optional<FileProblem> make_into(MadeRecord& made, const PlannedImage& planned);
  // Returns what is wrong with the image; else `file` is what to store, with its size and encoding
  // in `record`, and pixels_ hold the image where it was decoded.
  std::optional<FileProblem> check_image(std::string& file, Record& record);
  std::optional<FileProblem> check_jpeg(std::string& file, int orientation, Record& record);
  std::optional<FileProblem> convert(std::string& file, int orientation, Record& record);
  std::string shrink_image(Record& record);
  // Returns the bytes to store of an image that was made here.
  std::string encode(const Image& image, ChromaSize chroma, Record& record) const;

  ManifestOptions options_;
  SourceImages images_;
  std::optional<TileMaker> tiles_{};
  JpegDecoder decoder_{};
  Image pixels_{};
};

}  // namespace retina
