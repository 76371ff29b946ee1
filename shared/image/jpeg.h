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

// One per thread, reusable: keeps row buffers between images, and nothing else of any.
class JpegDecoder {
 public:
  // Images of more pixels are refused after the header, before anything is allocated for them;
  // those that take longer to decode, while they are decoded.
  explicit JpegDecoder(std::uint64_t max_pixels = kDefaultMaxPixels,
                       double max_seconds = std::numeric_limits<double>::infinity());
  ~JpegDecoder();
  JpegDecoder(JpegDecoder&&) noexcept;
  JpegDecoder& operator=(JpegDecoder&&) noexcept;

  // Decodes the first image of `bytes` into `out`, whose storage is reused. Other formats are
  // recognised and refused. Throws nothing but std::bad_alloc; `out` is unspecified when !ok.
  DecodeStatus decode(std::string_view bytes, Image& out);

  // What decode() would say of the file, in less time: no pixels are made.
  DecodeStatus check(std::string_view bytes, int& width, int& height);

  // Only the header, of a file or its beginning: size of the image in `width`, `height`.
  DecodeStatus read_size(std::string_view bytes, int& width, int& height);

  // The header of a whole file: not ok, too, when the image has too many pixels or the file is
  // too short for it, whatever its last bytes are. decode() and check() begin with this.
  DecodeStatus check_header(std::string_view bytes, int& width, int& height);

  std::uint64_t max_pixels() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Resolution of the colours beside that of the brightness: 4:2:0 as cameras have it, or 4:4:4.
enum class ChromaSize { kHalf, kFull };

// Baseline JPEG, `quality` 1..100.
std::string encode_jpeg(const Image& image, int quality, ChromaSize chroma = ChromaSize::kHalf);

}  // namespace retina
