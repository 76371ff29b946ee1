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
  const auto format = file.field<std::uint16_t>(TIFFTAG_SAMPLEFORMAT);
  if (format != SAMPLEFORMAT_UINT && format != SAMPLEFORMAT_VOID) {
    return unsupported(cat("of ", bits,
                           format == SAMPLEFORMAT_IEEEFP
                               ? "-bit floating-point samples (want 8-bit colours)"
                               : "-bit signed or complex samples (want 8-bit colours)"));
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

// Packs `count` pixels from libtiff's four bytes to three each.
void pack_rgb(const std::uint32_t* from, std::size_t count, bool is_premultiplied,
              std::uint8_t* rgb) {
  for (std::size_t i = 0; i < count; ++i, rgb += 3) {
    const std::uint32_t pixel = from[i], alpha = is_premultiplied ? TIFFGetA(pixel) : 255;
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

  std::vector<std::uint8_t> tile_{};  // libtiff's buffer: file_ goes first
  TiffFile file_;
  ImageSize size_;
  bool ok_ = true;

 private:
  // Gives libtiff a buffer for plain tiles: libtiff (4.5) accepts only one of their exact size, and
  // makes itself one of whole KiB.
  void set_tile_buffer(bool is_tiled) {
    if (!is_tiled || file_.field<std::uint16_t>(TIFFTAG_COMPRESSION) != COMPRESSION_NONE) return;
    if (file_.left_out_count() == file_.part_count()) return;
    tile_.resize(static_cast<std::size_t>(std::max<tmsize_t>(TIFFTileSize(file_.get()), 0)));
    TIFFReadBufferSetup(file_.get(), tile_.data(), std::ssize(tile_));
  }

  int band_rows_ = 1, band_first_ = -1, next_ = 0;
};

// Shows rows as libtiff does, as 8-bit colours.
class TiffRows : public TiffBands {
 public:
  using TiffBands::TiffBands;
  ~TiffRows() override {
    if (has_begun_) TIFFRGBAImageEnd(&image_);
  }
  TiffRows(const TiffRows&) = delete;
  TiffRows& operator=(const TiffRows&) = delete;

  bool read_row(std::uint8_t* rgb) override {
    const std::optional<std::size_t> row = next_in_band();
    if (!row) return false;
    pack_rgb(band_.data() + *row * image_.width, static_cast<std::size_t>(size_.width),
             is_premultiplied_, rgb);
    return true;
  }
  DecodeStatus status() const override {
    return ok_ ? file_.read_status(warnings_before_) : file_.damaged("its pixels cannot be read");
  }

 private:
  // Checks that libtiff shows what the file means.
  DecodeStatus begin() override {
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
    image_.width = row_pixels_of(file_, image_.width);
    part_width_ = TIFFIsTiled(file_.get()) != 0
                      ? std::clamp(file_.field<std::uint32_t>(TIFFTAG_TILEWIDTH), 1U, image_.width)
                      : image_.width;
    warnings_before_ = file_.warning_count();
    return {.ok = true};
  }

  // Reads strips or tiles one by one: libtiff takes an omitted one for damage.
  bool read_band(int first, int count) override {
    const auto rows = static_cast<std::size_t>(count);
    const bool is_one_part = part_width_ == image_.width;
    band_.resize(rows * image_.width);
    for (std::uint32_t x = 0; x < image_.width; x += part_width_) {
      if (!read_part(x, static_cast<std::uint32_t>(first), rows, is_one_part ? band_ : part_)) {
        return false;
      }
      for (std::size_t row = 0; row < rows && !is_one_part; ++row) {
        std::copy_n(part_.begin() + static_cast<std::ptrdiff_t>(row * part_width_), part_width_,
                    band_.begin() + static_cast<std::ptrdiff_t>(row * image_.width + x));
      }
    }
    return true;
  }

  bool read_part(std::uint32_t x, std::uint32_t y, std::size_t rows,
                 std::vector<std::uint32_t>& part) {
    part.resize(rows * part_width_);
    const int planes = image_.isContig != 0 ? 1 : image_.samplesperpixel;
    int left_out = 0;
    for (int plane = 0; plane < planes; ++plane) {
      left_out += file_.is_left_out(file_.part_at(x, y, static_cast<std::uint16_t>(plane))) ? 1 : 0;
    }
    if (left_out == planes) {
      std::fill(part.begin(), part.end(), pixel_without_data());
      return true;
    }
    image_.row_offset = static_cast<int>(y);
    image_.col_offset = static_cast<int>(x);
    return TIFFRGBAImageGet(&image_, part.data(), part_width_, static_cast<std::uint32_t>(rows)) ==
           1;
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

  TIFFRGBAImage image_{};
  bool has_begun_ = false, is_premultiplied_ = false;
  int warnings_before_ = 0;
  std::uint32_t part_width_ = 0;                // of strips or tiles
  std::vector<std::uint32_t> part_{}, band_{};  // in libtiff's packing
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
    return ok_ ? file_.read_status(warnings_before_) : file_.damaged("its samples cannot be read");
  }

 private:
  DecodeStatus begin() override {
    bits_ = file_.field<std::uint16_t>(TIFFTAG_BITSPERSAMPLE);
    samples_ = file_.field<std::uint16_t>(TIFFTAG_SAMPLESPERPIXEL);
    is_separate_ = file_.field<std::uint16_t>(TIFFTAG_PLANARCONFIG) == PLANARCONFIG_SEPARATE;
    const auto format = file_.field<std::uint16_t>(TIFFTAG_SAMPLEFORMAT);
    const auto photometric = file_.field<std::uint16_t>(TIFFTAG_PHOTOMETRIC);
    is_signed_ = format == SAMPLEFORMAT_INT;
    is_inverted_ = photometric == PHOTOMETRIC_MINISWHITE;
    const bool is_whole =
        format == SAMPLEFORMAT_UINT || format == SAMPLEFORMAT_INT || format == SAMPLEFORMAT_VOID;
    const bool is_colour =
        photometric == PHOTOMETRIC_RGB || photometric == PHOTOMETRIC_MINISBLACK || is_inverted_;
    if (!is_whole || !is_colour || bits_ > 16 || samples_ < 1) {
      return unsupported(cat("of ", bits_,
                             "-bit samples that cannot be stretched (want whole numbers of up to "
                             "16 bits, grey or RGB)"));
    }
    // Parts without data are filled with nodata in the form of a stored sample.
    const double half = is_signed_ ? 1U << (bits_ - 1) : 0, most = (1U << bits_) - 1;
    const double nodata = std::clamp(file_.nodata(), -half, most - half);
    nodata_ = static_cast<unsigned>(static_cast<int>(nodata)) & ((1U << bits_) - 1);
    warnings_before_ = file_.warning_count();
    return {.ok = true};
  }

  // Copies the next row to samples of a type that is wide enough.
  template <class Sample>
  bool copy_row(Sample* rgb) {
    const std::optional<std::size_t> row = next_in_band();
    if (!row) return false;
    const std::size_t count = 3 * static_cast<std::size_t>(size_.width);
    const std::uint16_t* const from = band_.data() + *row * count;
    std::transform(from, from + count, rgb,
                   [](std::uint16_t sample) { return static_cast<Sample>(sample); });
    return true;
  }

  bool read_band(int first, int count) override {
    band_.resize(3 * static_cast<std::size_t>(size_.width) * static_cast<std::size_t>(count));
    const bool is_tiled = TIFFIsTiled(file_.get()) != 0;
    const int width = is_tiled ? file_.field<int>(TIFFTAG_TILEWIDTH) : size_.width;
    const tmsize_t part_bytes = is_tiled ? TIFFTileSize(file_.get()) : TIFFStripSize(file_.get());
    const tmsize_t row_bytes =
        is_tiled ? TIFFTileRowSize(file_.get()) : TIFFScanlineSize(file_.get());
    if (width < 1 || part_bytes < 1 || row_bytes * count > part_bytes) return false;
    part_.resize(static_cast<std::size_t>(part_bytes));
    const bool is_grey = samples_ < 3;
    const int plane_count = is_separate_ && !is_grey ? 3 : 1;
    const std::size_t pixel_samples = is_separate_ ? 1 : static_cast<std::size_t>(samples_);
    for (int left = 0; left < size_.width; left += width) {
      for (int plane = 0; plane < plane_count; ++plane) {
        const std::uint32_t part =
            file_.part_at(static_cast<std::uint32_t>(left), static_cast<std::uint32_t>(first),
                          static_cast<std::uint16_t>(plane));
        const bool is_here = !file_.is_left_out(part);
        if (is_here && !read_part(is_tiled, part)) return false;
        for (int y = 0; y < count; ++y) {
          const std::uint8_t* const packed = is_here ? part_.data() + y * row_bytes : nullptr;
          std::uint16_t* rgb = band_.data() + 3 * (std::ptrdiff_t{y} * size_.width + left);
          for (int x = 0; x < std::min(width, size_.width - left); ++x, rgb += 3) {
            const std::size_t at = static_cast<std::size_t>(x) * pixel_samples;
            if (plane_count == 3) rgb[plane] = sample_at(packed, at);
            for (std::size_t c = 0; c < 3 && plane_count == 1; ++c) {
              rgb[c] = sample_at(packed, at + (is_grey ? 0 : c));
            }
          }
        }
      }
    }
    return true;
  }

  bool read_part(bool is_tiled, std::uint32_t part) {
    const auto read = is_tiled ? TIFFReadEncodedTile : TIFFReadEncodedStrip;
    return read(file_.get(), part, part_.data(), std::ssize(part_)) >= 0;
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
