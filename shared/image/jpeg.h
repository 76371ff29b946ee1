// JPEG in and out through libjpeg-turbo's scanline interface. Pixels equal Pillow's
// `Image.open(f).convert("RGB")` bit for bit: slow integer DCT, fancy upsampling, CMYK and YCCK
// converted, EXIF orientation ignored as COCO's annotations do.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "shared/image/decode_status.h"
#include "shared/image/image.h"

namespace retina {

// Decodes JPEGs. One per thread, reusable: keeps row buffers between images, and no other state.
class JpegDecoder {
 public:
  // Sets the limits: images of more pixels are refused after the header, before anything is
  // allocated for them; those that take longer to decode, during decoding.
  explicit JpegDecoder(std::uint64_t max_pixels = kDefaultMaxPixels,
                       double max_seconds = std::numeric_limits<double>::infinity());
  ~JpegDecoder();
  JpegDecoder(JpegDecoder&&) noexcept;
  JpegDecoder& operator=(JpegDecoder&&) noexcept;

  // Decodes the first image of `bytes` into `out`, whose storage is reused. Other formats are
  // recognised and refused. Throws nothing but std::bad_alloc; `out` is unspecified when !ok.
  DecodeStatus decode(std::string_view bytes, Image& out);

  // Returns the status that decode() would give, in less time: no pixels are produced.
  DecodeStatus check(std::string_view bytes, int& width, int& height);

  // Reads only the header, of a file or its beginning: size of the image in `width`, `height`.
  DecodeStatus read_size(std::string_view bytes, int& width, int& height);

  // Reads the header of a whole file: not ok, too, if the image has too many pixels or the file is
  // too short for it, whatever its last bytes are. decode() and check() begin with this.
  DecodeStatus check_header(std::string_view bytes, int& width, int& height);

  std::uint64_t max_pixels() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Resolution of the colours relative to the brightness: 4:2:0 as in cameras, or 4:4:4.
enum class ChromaSize { kHalf, kFull };

// Encodes a baseline JPEG, `quality` 1..100.
std::string encode_jpeg(const Image& image, int quality, ChromaSize chroma = ChromaSize::kHalf);

}  // namespace retina
