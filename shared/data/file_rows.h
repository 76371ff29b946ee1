// Image files by rows and as smaller copies, for images that are too large to be held. What cannot
// be used is a problem with the same words as decode_file()'s.
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

// The size of that copy, or the image's own.
ImageSize whole_size_of(const ImageSize& image);

// A file of `folder` that has the size that `request` says. Throws kIo when the folder or its mount
// is gone, here and in rows that are read.
std::unique_ptr<ImageRows> open_file_rows(const ImageFolder& folder, const std::string& name,
                                          const DecodeRequest& request);

// A copy, as read_reduced() makes it, of such a file.
struct ReducedRequest {
  DecodeRequest file{};
  int max_side_px = kReducedSidePx;
};
std::optional<FileProblem> decode_reduced_file(const ImageFolder& folder, const std::string& name,
                                               const ReducedRequest& request, Image& out);

}  // namespace retina
