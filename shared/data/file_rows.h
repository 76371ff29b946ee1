// Image files by rows and as smaller copies, for images that are too large to be held. Unusable
// files are problems with the same words as decode_file()'s.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "shared/base/image_folder.h"
#include "shared/data/listed_folder.h"
#include "shared/data/sample_source.h"

namespace retina {

// Images of more pixels are seen whole as a copy, whose longer side is at most kReducedSidePx.
inline constexpr std::int64_t kMostWholePixels = 24'000'000;
inline constexpr int kReducedSidePx = 2048;

// Returns the size of that copy, or the image's own.
ImageSize whole_size_of(const ImageSize& image);

// Opens a file of `folder`, which must have the size in `request`. Throws kIo if the folder or its
// mount is gone, here and while rows are read.
std::unique_ptr<ImageRows> open_file_rows(const ImageFolder& folder, const std::string& name,
                                          const DecodeRequest& request);

// Request for a copy of such a file, as read_reduced() makes it.
struct ReducedRequest {
  DecodeRequest file{};
  int max_side_px = kReducedSidePx;
};
std::optional<FileProblem> decode_reduced_file(const ImageFolder& folder, const std::string& name,
                                               const ReducedRequest& request, Image& out);

}  // namespace retina
