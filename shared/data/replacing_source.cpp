#include "shared/data/replacing_source.h"

#include <algorithm>
#include <limits>
#include <variant>

#include "shared/base/error.h"

namespace retina {

namespace {

bool fits(const IndexEntry& entry, const BatchRequest& request) {
  const ImageSize size = framed_size({entry.width, entry.height}, request.frame());
  return size.width <= request.padded_width_px && size.height <= request.padded_height_px;
}

}  // namespace

Sample ReplacingSource::load(const BatchRequest& request, std::size_t place, JpegDecoder& decoder,
                             PixelTarget pixels) const {
  try {
    return source_->load(request, place, decoder, pixels);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData) throw;
    const ImageIndex& images = index();
    const std::size_t damaged = request.slots[place].record;
    const std::size_t room = std::holds_alternative<float*>(pixels)
                                 ? std::numeric_limits<std::size_t>::max()
                                 : stored_bytes(images[damaged]);
    BatchRequest next = request;
    for (std::size_t i = 1; i < std::min(images.size(), kMostTries + 1); ++i) {
      const std::size_t record = (damaged + i) % images.size();
      if (!fits(images[record], request) || stored_bytes(images[record]) > room) continue;
      next.slots[place].record = record;
      try {
        Sample sample = source_->load(next, place, decoder, pixels);
        sample.replaced = Replaced{.record = damaged, .problem = error.what()};
        return sample;
      } catch (const Error& another) {
        if (another.kind() != ErrorKind::kData) throw;
      }
    }
    throw;
  }
}

}  // namespace retina
