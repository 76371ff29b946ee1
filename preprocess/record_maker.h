// One image -> one record, or the reason why not. Runs on every decode thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "preprocess/options.h"
#include "preprocess/pack_plan.h"
#include "preprocess/source_images.h"
#include "shared/base/image_folder.h"
#include "shared/image/image.h"
#include "shared/image/jpeg.h"
#include "shared/shard/quarantine.h"
#include "shared/shard/record.h"

namespace retina {

// What became of an image.
struct MadeRecord {
  Record record{};  // without image: `bytes` has it
  std::string bytes{};
  std::uint64_t bytes_xxh3 = 0, image_xxh3 = 0;
  SourceFile source{};
  std::string found_as{};                 // the file's name where it is not that of the annotations
  std::optional<QuarantinedImage> bad{};  // then the others are empty
};

// Not thread-safe: one per thread, it keeps the decoder's buffers.
class RecordMaker {
 public:
  explicit RecordMaker(const PackOptions& options);

  // Reads and checks the image; converts it, turns it upright or makes it smaller when the options
  // ask for that. A bad image is a value. Throws kIo when the image folder or its mount is gone or
  // fails, kNoInput when the image may not be read.
  MadeRecord make(const PlannedImage& planned);

 private:
  // What is wrong with the image; else `file` is what to store, with its size and encoding in
  // `record`, and pixels_ hold the image where it was decoded.
  std::optional<FileProblem> check_image(std::string& file, Record& record);
  std::optional<FileProblem> check_jpeg(std::string& file, int orientation, Record& record);
  std::optional<FileProblem> convert(std::string& file, int orientation, Record& record);
  std::string shrink_image(Record& record);
  // What to store of an image that was made here.
  std::string encode(const Image& image, ChromaSize chroma, Record& record) const;

  ManifestOptions options_;
  SourceImages images_;
  JpegDecoder decoder_{};
  Image pixels_{};
};

}  // namespace retina
