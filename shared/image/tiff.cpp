#include <tiffio.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "shared/base/cat.h"
#include "shared/image/format_rows.h"
#include "shared/image/image_file.h"
#include "shared/image/resize.h"
#include "shared/image/tiff_file.h"

namespace retina {
namespace {

std::uint64_t pixels_of(const ImageSize& size) {
  return static_cast<std::uint64_t>(size.width) * static_cast<std::uint64_t>(size.height);
}

DecodeStatus unsupported(const std::string& what) {
  return {.ok = false, .problem = cat("a TIFF ", what), .unsupported = true};
}

DecodeStatus size_of(const TiffFile& file, int& width, int& height) {
  const auto wide = file.field<std::uint32_t>(TIFFTAG_IMAGEWIDTH);
  const auto high = file.field<std::uint32_t>(TIFFTAG_IMAGELENGTH);
  if (wide < 1 || high < 1 || wide > kMaxSidePx || high > kMaxSidePx) {
    return {.ok = false, .problem = cat("damaged TIFF: a size of ", wide, "x", high)};
  }
  width = static_cast<int>(wide);
  height = static_cast<int>(high);
  return {.ok = true};
}

// Returns the meanings of the samples after the colours; most files have none.
std::vector<std::uint16_t> extra_samples(const TiffFile& file) {
  std::uint16_t count = 0;
  std::uint16_t* kinds = nullptr;
  if (TIFFGetFieldDefaulted(file.get(), TIFFTAG_EXTRASAMPLES, &count, &kinds) != 1) return {};
  return {kinds, kinds + count};
}

// Refuses samples whose meaning is unknown, or whose appearance would be a matter of choice.
std::optional<DecodeStatus> unknown_samples(const TiffFile& file) {
  if (file.field<std::uint16_t>(TIFFTAG_COMPRESSION) == COMPRESSION_OJPEG) {
    return unsupported("of JPEG in its withdrawn form (compression 6; want 7: tiffcp -c jpeg)");
  }
  const auto bits = file.field<std::uint16_t>(TIFFTAG_BITSPERSAMPLE);
  switch (file.field<std::uint16_t>(TIFFTAG_SAMPLEFORMAT)) {
    case SAMPLEFORMAT_UINT:
    case SAMPLEFORMAT_VOID:
      break;
    case SAMPLEFORMAT_IEEEFP:
      return unsupported(cat("of ", bits, "-bit floating-point samples (want 8-bit colours)"));
    default:
      return unsupported("of signed or complex samples (want 8-bit colours)");
  }
  if (DecodeStatus status = check_range("TIFF", bits, 0); !status.ok) return status;
  if ((file.field<std::uint32_t>(TIFFTAG_SUBFILETYPE) & FILETYPE_REDUCEDIMAGE) != 0) {
    return unsupported("whose first page is a preview of another (a camera's raw file?)");
  }
  return std::nullopt;
}

std::optional<DecodeStatus> unknown_colours(const TiffFile& file, const TIFFRGBAImage& image,
                                            const std::vector<std::uint16_t>& extras) {
  const auto refused = [&] {
    return unsupported(
        cat("of ", image.samplesperpixel, image.samplesperpixel == 1 ? " band" : " bands",
            " that are not colours (photometric interpretation ", image.photometric, ")"));
  };
  const bool is_separate = image.isContig == 0;
  switch (image.photometric) {
    case PHOTOMETRIC_RGB:
    case PHOTOMETRIC_YCBCR:
      return std::nullopt;
    case PHOTOMETRIC_SEPARATED:
      if (file.field<std::uint16_t>(TIFFTAG_INKSET) == INKSET_CMYK) return std::nullopt;
      return refused();
    case PHOTOMETRIC_MINISBLACK:
    case PHOTOMETRIC_MINISWHITE:
    case PHOTOMETRIC_PALETTE: {
      // Alpha alone may follow; libtiff takes separate planes for black to white.
      const bool has_alpha = extras.size() == 1 && extras[0] != EXTRASAMPLE_UNSPECIFIED;
      const bool may_be_separate = image.photometric == PHOTOMETRIC_MINISBLACK;
      if (image.samplesperpixel > (has_alpha ? 2 : 1)) return refused();
      if (is_separate && !may_be_separate) return refused();
      return std::nullopt;
    }
    default:
      return refused();
  }
}

// Returns the sample before its multiplication by alpha, as Pillow computes it.
std::uint8_t unmultiplied(std::uint32_t sample, std::uint32_t alpha) {
  if (alpha == 0 || alpha == 255) return static_cast<std::uint8_t>(sample);
  return static_cast<std::uint8_t>(std::min(255U, 255 * sample / alpha));
}

// Packs `count` pixels from libtiff's four bytes to three each; `rgb` may be the same memory as
// `from`.
void pack_rgb(const std::uint8_t* from, std::size_t count, bool is_premultiplied,
              std::uint8_t* rgb) {
  for (std::size_t i = 0; i < count; ++i, from += 4, rgb += 3) {
    std::uint32_t pixel = 0;
    std::memcpy(&pixel, from, sizeof pixel);
    const std::uint32_t alpha = is_premultiplied ? TIFFGetA(pixel) : 255;
    rgb[0] = unmultiplied(TIFFGetR(pixel), alpha);
    rgb[1] = unmultiplied(TIFFGetG(pixel), alpha);
    rgb[2] = unmultiplied(TIFFGetB(pixel), alpha);
  }
}

// Returns the pixels of a row in whole tiles: if they must be clipped, libtiff (4.5) shears grey
// with alpha.
std::uint32_t row_pixels_of(const TiffFile& file, std::uint32_t width) {
  if (TIFFIsTiled(file.get()) == 0) return width;
  const std::uint32_t tile =
      std::clamp(file.field<std::uint32_t>(TIFFTAG_TILEWIDTH), 1U, kMaxSidePx);
  return (width + tile - 1) / tile * tile;
}

// Reads the pixels of the first page.
class TiffPixels {
 public:
  explicit TiffPixels(TiffFile& file) : file_(file) {}
  ~TiffPixels() {
    if (has_begun_) TIFFRGBAImageEnd(&image_);
  }
  TiffPixels(const TiffPixels&) = delete;
  TiffPixels& operator=(const TiffPixels&) = delete;

  // Checks that libtiff shows what the file means. Call it once, before the other functions.
  DecodeStatus begin() {
    if (auto status = unknown_samples(file_)) return *status;
    std::vector<std::uint16_t> extras = extra_samples(file_);
    is_premultiplied_ = !extras.empty() && extras[0] == EXTRASAMPLE_ASSOCALPHA;
    if (!extras.empty()) {  // else libtiff would multiply the colours by it
      auto said = extras;
      said[0] = EXTRASAMPLE_ASSOCALPHA;
      TIFFSetField(file_.get(), TIFFTAG_EXTRASAMPLES, static_cast<int>(said.size()), said.data());
    }
    std::array<char, 1024> problem{};
    if (TIFFRGBAImageBegin(&image_, file_.get(), 1, problem.data()) == 0) {
      return unsupported(cat("that libtiff cannot show: ", problem.data()));
    }
    has_begun_ = true;
    if (auto status = unknown_colours(file_, image_, extras)) return *status;
    is_premultiplied_ = is_premultiplied_ && image_.photometric == PHOTOMETRIC_RGB;
    image_.orientation = image_.req_orientation = ORIENTATION_TOPLEFT;  // orientation is ignored
    width_ = static_cast<int>(image_.width);
    image_.width = row_pixels_of(file_, image_.width);
    set_parts();
    warnings_before_ = file_.warning_count();
    return {.ok = true};
  }

  // Reads `count` rows from row `from` on to the beginning of `rgb`, which is resized as needed.
  // Returns false if they are damaged.
  bool read(int from, int count, std::vector<std::uint8_t>& rgb) {
    const auto rows = static_cast<std::uint32_t>(count);
    const auto width = static_cast<std::size_t>(width_);
    if (part_rows_ > 0) {
      rgb.resize(3 * width * rows);
      return read_parts(static_cast<std::uint32_t>(from), rows, rgb.data());
    }
    // A strip or tile may be the whole image, so it is packed in place.
    rgb.resize(std::size_t{4} * image_.width * rows);
    image_.row_offset = from;
    auto* const packed = reinterpret_cast<std::uint32_t*>(rgb.data());
    if (TIFFRGBAImageGet(&image_, packed, image_.width, rows) != 1) return false;
    for (std::size_t row = 0; row < rows; ++row) {
      pack_rgb(rgb.data() + 4 * row * image_.width, width, is_premultiplied_,
               rgb.data() + 3 * row * width);
    }
    return true;
  }

  // Returns the status after read(), which returned `ok`.
  DecodeStatus status(bool ok) const {
    if (!ok && is_partly_left_out_) {
      return unsupported(
          "that leaves out parts without data of some colours only; write it again "
          "with gdal_translate -co SPARSE_OK=FALSE");
    }
    if (!ok) return file_.damaged("its pixels cannot be read");
    return file_.read_status(warnings_before_);
  }

 private:
  // Sets the size of parts for a file with several tiles in a row, or one that leaves some out.
  void set_parts() {
    const bool is_tiled = TIFFIsTiled(file_.get()) != 0;
    part_width_ = is_tiled ? file_.field<std::uint32_t>(TIFFTAG_TILEWIDTH) : image_.width;
    part_width_ = std::clamp(part_width_, 1U, image_.width);
    if (part_width_ == image_.width && file_.left_out_count() == 0) return;
    const auto rows =
        file_.field<std::uint32_t>(is_tiled ? TIFFTAG_TILELENGTH : TIFFTAG_ROWSPERSTRIP);
    part_rows_ = std::clamp(rows, 1U, kMaxSidePx);
  }

  // Reads strips or tiles one by one to `rgb` [rows, width, 3]: a row of tiles in libtiff's four
  // bytes a pixel is large, and libtiff takes an omitted part for damage.
  bool read_parts(std::uint32_t from, std::uint32_t rows, std::uint8_t* rgb) {
    const auto width = static_cast<std::uint32_t>(width_);
    for (std::uint32_t y = 0; y < rows; y += part_rows_) {
      const std::uint32_t high = std::min(part_rows_, rows - y);
      for (std::uint32_t x = 0; x < width; x += part_width_) {
        const std::optional<std::size_t> stride = read_part(x, from + y, high);
        if (!stride) return false;
        const auto* const packed = reinterpret_cast<const std::uint8_t*>(part_.data());
        for (std::size_t row = 0; row < high; ++row) {
          pack_rgb(packed + 4 * row * *stride, std::min(part_width_, width - x), is_premultiplied_,
                   rgb + 3 * ((y + row) * width + x));
        }
      }
    }
    return true;
  }

  // Reads one part to part_. Returns the distance of its rows in pixels, 0 if all are the same;
  // nothing if it cannot be read.
  std::optional<std::size_t> read_part(std::uint32_t x, std::uint32_t y, std::uint32_t rows) {
    const int planes = image_.isContig != 0 ? 1 : image_.samplesperpixel;
    int left_out = 0;
    for (int plane = 0; plane < planes; ++plane) {
      left_out += file_.is_left_out(file_.part_at(x, y, static_cast<std::uint16_t>(plane))) ? 1 : 0;
    }
    if (left_out == planes) {
      part_.assign(part_width_, pixel_without_data());
      return 0;
    }
    is_partly_left_out_ = is_partly_left_out_ || left_out > 0;
    image_.row_offset = static_cast<int>(y);
    image_.col_offset = static_cast<int>(x);
    part_.resize(std::size_t{part_width_} * rows);
    if (TIFFRGBAImageGet(&image_, part_.data(), part_width_, rows) != 1) return std::nullopt;
    return part_width_;
  }

  // Returns a pixel in libtiff's packing whose samples are the file's nodata.
  std::uint32_t pixel_without_data() const {
    const std::uint32_t most = (1U << image_.bitspersample) - 1;
    const auto sample = static_cast<std::uint32_t>(std::clamp(file_.nodata(), 0.0, 1.0 * most));
    const auto packed = [](std::uint32_t r, std::uint32_t g, std::uint32_t b) {
      return r | g << 8 | b << 16 | 255U << 24;
    };
    const auto grey = [&](std::uint32_t of) { return packed(of, of, of); };
    switch (image_.photometric) {
      case PHOTOMETRIC_PALETTE:
        return packed(image_.redcmap[sample], image_.greencmap[sample], image_.bluecmap[sample]);
      case PHOTOMETRIC_MINISWHITE:
        return grey((most - sample) * 255 / most);
      case PHOTOMETRIC_SEPARATED:
        return grey((most - sample) * (most - sample) / most);
      default:
        return grey(sample * 255 / most);
    }
  }

  TiffFile& file_;
  TIFFRGBAImage image_{};
  bool has_begun_ = false, is_premultiplied_ = false, is_partly_left_out_ = false;
  int width_ = 0, warnings_before_ = 0;
  // Size of strips and tiles that are read one by one.
  std::uint32_t part_rows_ = 0, part_width_ = 0;
  std::vector<std::uint32_t> part_{};
};

// Reads the rows of a file from its strips or rows of tiles, one of which is held.
class TiffBands : public FormatRows {
 public:
  TiffBands(const ImageBytes& bytes, const ImageSize& size)
      : file_(bytes, std::min(pixels_of(size), kDefaultMaxPixels)), size_(size) {}

  DecodeStatus open() {
    if (file_.get() == nullptr) return file_.damaged("no directory");
    const bool is_tiled = TIFFIsTiled(file_.get()) != 0;
    const auto rows =
        file_.field<std::uint32_t>(is_tiled ? TIFFTAG_TILELENGTH : TIFFTAG_ROWSPERSTRIP);
    band_rows_ = static_cast<int>(std::clamp(rows, 1U, static_cast<std::uint32_t>(size_.height)));
    const auto row_pixels =
        static_cast<int>(row_pixels_of(file_, static_cast<std::uint32_t>(size_.width)));
    std::string problem;
    if (has_too_many_pixels(row_pixels, band_rows_, kDefaultMaxPixels, problem)) {
      return unsupported(cat("whose ", is_tiled ? "tiles" : "strips", " have ", rows,
                             " rows, which must be held in memory: ", problem,
                             "; make it one of small tiles with tiffcp -t"));
    }
    problem = file_.check_parts();
    if (!problem.empty()) return file_.damaged(problem);
    if (DecodeStatus status = begin(); !status.ok) return status;
    set_tile_buffer(is_tiled);
    return status();
  }

  bool skip_rows(int count) override {
    next_ += count;
    return ok_;
  }
  int warning_count() const override { return file_.warning_count(); }

 protected:
  // Checks what the samples are and whether they can be read.
  virtual DecodeStatus begin() = 0;
  // Reads `count` rows from row `first` on, which are a band.
  virtual bool read_band(int first, int count) = 0;

  // Returns the next row's place in its band, reading that if needed; nothing if it cannot be read.
  std::optional<std::size_t> next_in_band() {
    const int first = next_ / band_rows_ * band_rows_;
    if (ok_ && first != band_first_) {
      ok_ = read_band(first, std::min(band_rows_, size_.height - first));
      band_first_ = first;
    }
    if (!ok_) return std::nullopt;
    return static_cast<std::size_t>(next_++ - first);
  }

  TiffFile& file() { return file_; }
  const TiffFile& file() const { return file_; }
  const ImageSize& size() const { return size_; }
  bool ok() const { return ok_; }

 private:
  // Gives libtiff a buffer for plain tiles: libtiff (4.5) accepts only one of their exact size, and
  // makes itself one of whole KiB.
  void set_tile_buffer(bool is_tiled) {
    if (!is_tiled || file_.field<std::uint16_t>(TIFFTAG_COMPRESSION) != COMPRESSION_NONE) return;
    if (file_.left_out_count() == file_.part_count()) return;
    tile_.resize(static_cast<std::size_t>(std::max<tmsize_t>(TIFFTileSize(file_.get()), 0)));
    TIFFReadBufferSetup(file_.get(), tile_.data(), std::ssize(tile_));
  }

  std::vector<std::uint8_t> tile_{};
  TiffFile file_;
  ImageSize size_;
  int band_rows_ = 1, band_first_ = -1, next_ = 0;
  bool ok_ = true;
};

// Shows rows as decode_tiff() does.
class TiffRows : public TiffBands {
 public:
  using TiffBands::TiffBands;

  bool read_row(std::uint8_t* rgb) override {
    const std::optional<std::size_t> row = next_in_band();
    if (!row) return false;
    const std::size_t row_bytes = 3 * static_cast<std::size_t>(size().width);
    std::memcpy(rgb, band_.data() + *row * row_bytes, row_bytes);
    return true;
  }
  DecodeStatus status() const override { return pixels_.status(ok()); }

 private:
  DecodeStatus begin() override { return pixels_.begin(); }
  bool read_band(int first, int count) override { return pixels_.read(first, count, band_); }

  TiffPixels pixels_{file()};
  std::vector<std::uint8_t> band_{};
};

// Gives whole numbers of any depth up to 16 bits unchanged, the first three of a pixel's or the
// first alone for all three: for samples to be stretched, and for bands that the file does not call
// colours.
class TiffSampleRows : public TiffBands {
 public:
  using TiffBands::TiffBands;

  // Returns true if this class, not TiffRows, is for a file that is to be stretched.
  static bool is_for(const TiffFile& file) {
    const auto bits = file.field<std::uint16_t>(TIFFTAG_BITSPERSAMPLE);
    const auto photometric = file.field<std::uint16_t>(TIFFTAG_PHOTOMETRIC);
    const bool may_be_bands = photometric == PHOTOMETRIC_MINISBLACK;
    const bool has_bands = file.field<std::uint16_t>(TIFFTAG_SAMPLESPERPIXEL) > 1;
    return bits > 8 || (bits == 8 && may_be_bands && has_bands);
  }

  bool is_deep() const override { return bits_ > 8; }
  bool read_deep_row(std::uint16_t* rgb) override { return copy_row(rgb); }
  bool read_row(std::uint8_t* rgb) override { return copy_row(rgb); }
  DecodeStatus status() const override {
    return ok() ? file().read_status(warnings_before_)
                : file().damaged("its samples cannot be read");
  }

 private:
  DecodeStatus begin() override {
    bits_ = file().field<std::uint16_t>(TIFFTAG_BITSPERSAMPLE);
    samples_ = file().field<std::uint16_t>(TIFFTAG_SAMPLESPERPIXEL);
    is_separate_ = file().field<std::uint16_t>(TIFFTAG_PLANARCONFIG) == PLANARCONFIG_SEPARATE;
    const auto format = file().field<std::uint16_t>(TIFFTAG_SAMPLEFORMAT);
    const auto photometric = file().field<std::uint16_t>(TIFFTAG_PHOTOMETRIC);
    is_signed_ = format == SAMPLEFORMAT_INT;
    is_inverted_ = photometric == PHOTOMETRIC_MINISWHITE;
    if (format != SAMPLEFORMAT_UINT && format != SAMPLEFORMAT_INT && format != SAMPLEFORMAT_VOID) {
      return unsupported(cat("of ", bits_,
                             "-bit floating-point or complex samples (want whole "
                             "numbers of up to 16 bits)"));
    }
    if (bits_ > 16 || samples_ < 1) {
      return unsupported(cat("of ", bits_, "-bit samples (want whole numbers of up to 16 bits)"));
    }
    if (photometric != PHOTOMETRIC_RGB && photometric != PHOTOMETRIC_MINISBLACK && !is_inverted_) {
      return unsupported(cat("of ", bits_,
                             "-bit samples that are not colours (photometric "
                             "interpretation ",
                             photometric, ")"));
    }
    // Parts without data are filled with nodata in the form of a stored sample.
    const double half = is_signed_ ? 1U << (bits_ - 1) : 0, most = (1U << bits_) - 1;
    const double nodata = std::clamp(file().nodata(), -half, most - half);
    nodata_ = static_cast<unsigned>(static_cast<int>(nodata)) & ((1U << bits_) - 1);
    warnings_before_ = file().warning_count();
    return {.ok = true};
  }

  // Copies the next row to samples of a type that is wide enough.
  template <class Sample>
  bool copy_row(Sample* rgb) {
    const std::optional<std::size_t> row = next_in_band();
    if (!row) return false;
    const std::size_t count = 3 * static_cast<std::size_t>(size().width);
    const std::uint16_t* const from = band_.data() + *row * count;
    std::transform(from, from + count, rgb,
                   [](std::uint16_t sample) { return static_cast<Sample>(sample); });
    return true;
  }

  bool read_band(int first, int count) override {
    band_.resize(3 * static_cast<std::size_t>(size().width) * static_cast<std::size_t>(count));
    const bool is_tiled = TIFFIsTiled(file().get()) != 0;
    const int width = is_tiled ? file().field<int>(TIFFTAG_TILEWIDTH) : size().width;
    const tmsize_t part_bytes = is_tiled ? TIFFTileSize(file().get()) : TIFFStripSize(file().get());
    const tmsize_t row_bytes =
        is_tiled ? TIFFTileRowSize(file().get()) : TIFFScanlineSize(file().get());
    if (width < 1 || part_bytes < 1 || row_bytes * count > part_bytes) return false;
    part_.resize(static_cast<std::size_t>(part_bytes));
    const int plane_count = is_separate_ ? std::min<int>(samples_, 3) : 1;
    for (int x = 0; x < size().width; x += width) {
      for (int plane = 0; plane < plane_count; ++plane) {
        const std::uint32_t part =
            file().part_at(static_cast<std::uint32_t>(x), static_cast<std::uint32_t>(first),
                           static_cast<std::uint16_t>(plane));
        const bool is_here = !file().is_left_out(part);
        if (is_here && !read_part(is_tiled, part)) return false;
        for (int y = 0; y < count; ++y) {
          put(is_here ? part_.data() + y * row_bytes : nullptr, std::min(width, size().width - x),
              plane, band_.data() + 3 * (std::ptrdiff_t{y} * size().width + x));
        }
      }
    }
    return true;
  }

  bool read_part(bool is_tiled, std::uint32_t part) {
    const auto read = is_tiled ? TIFFReadEncodedTile : TIFFReadEncodedStrip;
    return read(file().get(), part, part_.data(), std::ssize(part_)) >= 0;
  }

  // Copies a row of a strip or tile, or of an omitted one, to `rgb`.
  void put(const std::uint8_t* packed, int width, int plane, std::uint16_t* rgb) const {
    const int in_file = is_separate_ ? 1 : samples_;
    const bool is_grey = samples_ < 3;
    if (is_separate_ && is_grey && plane > 0) return;
    for (int x = 0; x < width; ++x, rgb += 3) {
      const auto index = static_cast<std::size_t>(x) * static_cast<std::size_t>(in_file);
      if (is_separate_ && !is_grey) {
        rgb[plane] = sample_at(packed, index);
      } else {
        for (std::size_t c = 0; c < 3; ++c) rgb[c] = sample_at(packed, index + (is_grey ? 0 : c));
      }
    }
  }

  // Returns a sample; negative ones are mapped below the others.
  std::uint16_t sample_at(const std::uint8_t* packed, std::size_t index) const {
    unsigned sample = 0;
    if (packed == nullptr) {
      sample = nodata_;
    } else if (bits_ == 16) {  // in the machine's byte order already, thanks to libtiff
      std::uint16_t value = 0;
      std::memcpy(&value, packed + 2 * index, sizeof value);
      sample = value;
    } else {
      const std::size_t bit = index * bits_;
      for (std::size_t i = bit; i < bit + bits_; ++i) {
        sample = sample << 1 | (packed[i / 8] >> (7 - i % 8) & 1U);
      }
    }
    if (is_signed_) sample ^= 1U << (bits_ - 1);
    return static_cast<std::uint16_t>(is_inverted_ ? (1U << bits_) - 1 - sample : sample);
  }

  unsigned bits_ = 0, nodata_ = 0;
  int samples_ = 0, warnings_before_ = 0;
  bool is_separate_ = false, is_signed_ = false, is_inverted_ = false;
  std::vector<std::uint8_t> part_{};   // a strip or tile
  std::vector<std::uint16_t> band_{};  // [rows, width, 3]
};

}  // namespace

DecodeStatus read_tiff_size(std::string_view bytes, int& width, int& height) {
  const TiffFile file(ImageBytes(bytes), 0);
  return file.get() == nullptr ? file.damaged("no directory") : size_of(file, width, height);
}

int read_tiff_orientation(const ImageBytes& bytes) {
  const TiffFile file(bytes, 0);
  if (file.get() == nullptr) return ORIENTATION_TOPLEFT;
  const auto orientation = file.field<std::uint16_t>(TIFFTAG_ORIENTATION);
  return orientation >= 1 && orientation <= 8 ? orientation : ORIENTATION_TOPLEFT;
}

DecodeStatus decode_tiff(std::string_view bytes, std::uint64_t max_pixels, Image& out) {
  const std::uint64_t pixels = pixels_of({.width = out.width, .height = out.height});
  TiffFile file(ImageBytes(bytes), pixels);
  if (file.get() == nullptr) return file.damaged("no directory");
  if (const auto problem = file.check_parts(); !problem.empty()) return file.damaged(problem);
  TiffPixels page(file);
  DecodeStatus status = page.begin();
  if (!status.ok) return status;
  const auto row_pixels =
      static_cast<int>(row_pixels_of(file, static_cast<std::uint32_t>(out.width)));
  if (has_too_many_pixels(row_pixels, out.height, max_pixels, status.problem)) {
    status.ok = false;
    return status;
  }
  status = page.status(page.read(0, out.height, out.rgb));
  out.rgb.resize(3 * pixels);
  return status;
}

OpenRows open_tiff_rows(ImageBytes& bytes, bool is_deep) {
  OpenRows out;
  bool are_samples = false;
  {
    const TiffFile file(bytes, 0);
    out.status =
        file.get() == nullptr ? file.damaged("no directory") : size_of(file, out.width, out.height);
    are_samples = out.status.ok && is_deep && TiffSampleRows::is_for(file);
  }
  if (!out.status.ok) return out;
  const ImageSize size{out.width, out.height};
  std::unique_ptr<TiffBands> rows;
  if (are_samples) {
    rows = std::make_unique<TiffSampleRows>(bytes, size);
  } else {
    rows = std::make_unique<TiffRows>(bytes, size);
  }
  out.status = rows->open();
  if (out.status.ok) out.rows = std::move(rows);
  return out;
}

}  // namespace retina
