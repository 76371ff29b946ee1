// The results of the makers of records (record_maker.h, tile_maker.h), for the shard.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "preprocess/pack_plan.h"
#include "preprocess/source_images.h"
#include "shared/base/image_folder.h"
#include "shared/image/decode_status.h"
#include "shared/image/image_bytes.h"
#include "shared/image/resize.h"
#include "shared/shard/quarantine.h"
#include "shared/shard/record.h"

namespace retina {

// The record of an image or of a tile of it, or the reason why there is none.
struct MadeRecord {
  Record record{};  // without image: `bytes` has it
  std::string bytes{};
  std::uint64_t bytes_xxh3 = 0, image_xxh3 = 0;
  std::string found_as{};  // the file's name where it is not that of the annotations; of tiles, the
                           // first one that is made has it
  std::optional<QuarantinedImage> bad{};  // then the others are empty
};

using PutRecord = std::function<void(MadeRecord)>;

inline constexpr const char* kConvertHint = "--convert packs PNG, TIFF and WebP images";

// Returns what helps with an image of a kind that we do not read, where that is known. Throws as
// FileReader.
std::string hint_of_unsupported(const DecodeStatus& status, bool is_stretched,
                                const ImageBytes& bytes);

MadeRecord bad_image(const PlannedImage& planned, const FileProblem& problem);

// The problem of an image that is not as large as the annotations say. `is_turned`: the image is
// stored on its side, and turned upright when `is_applied`.
FileProblem other_size(const ImageSize& found, const ImageSize& stated, bool is_turned,
                       bool is_applied);

// Fills `bytes` and its hash from the record and `image`, the bytes to store.
void encode_made(MadeRecord& made, const std::string& image);

}  // namespace retina
