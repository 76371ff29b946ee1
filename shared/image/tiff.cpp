#include <tiffio.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
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

namespace retina {
namespace {

// What libtiff may take at once beside the pixels of a strip or tile.
constexpr std::uint64_t kSpareBytes = std::uint64_t{64} << 20;

// An open TIFF, and what libtiff says about it.
class TiffFile {
 public:
  // `pixels`: of the image, as far as it is known; strips and tiles that claim far more fail.
  TiffFile(const ImageBytes& bytes, std::uint64_t pixels) : bytes_(bytes) {
    const std::unique_ptr<TIFFOpenOptions, void (*)(TIFFOpenOptions*)> options(
        TIFFOpenOptionsAlloc(), TIFFOpenOptionsFree);
    if (!options) throw std::bad_alloc();
    TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(),
                                        static_cast<tmsize_t>(kSpareBytes + 8 * pixels));
    TIFFOpenOptionsSetErrorHandlerExtR(options.get(), on_error, this);
    TIFFOpenOptionsSetWarningHandlerExtR(options.get(), on_warning, this);
    tiff_ = TIFFClientOpenExt("image", "r", this, read, write, seek, close, size, map, unmap,
                              options.get());
  }
  ~TiffFile() {
    if (tiff_ != nullptr) TIFFClose(tiff_);
  }
  TiffFile(const TiffFile&) = delete;
  TiffFile& operator=(const TiffFile&) = delete;

  TIFF* get() const { return tiff_; }  // nullptr: it has no directory that could be read

  // 0 where there is neither the tag nor a default.
  template <class Value>
  Value field(ttag_t tag) const {
    Value value = 0;
    return TIFFGetFieldDefaulted(tiff_, tag, &value) == 1 ? value : Value{0};
  }

  DecodeStatus damaged(const char* problem = "") const {
    bytes_.rethrow();
    const char* const text = error_[0] != '\0' ? error_.data() : problem;
    return {.ok = false, .problem = cat("damaged TIFF: ", text), .warning_count = warning_count_};
  }
  int warning_count() const { return warning_count_; }
  const char* last_warning() const { return warning_.data(); }

 private:
  using Text = std::array<char, 200>;

  static TiffFile& of(void* self) { return *static_cast<TiffFile*>(self); }

  // The first one is the cause.
  static int on_error(TIFF*, void* self, const char*, const char* format, std::va_list values) {
    Text& text = of(self).error_;
    if (text[0] == '\0') std::vsnprintf(text.data(), text.size(), format, values);
    return 1;
  }
  static int on_warning(TIFF*, void* self, const char*, const char* format, std::va_list values) {
    Text& text = of(self).warning_;
    ++of(self).warning_count_;
    std::vsnprintf(text.data(), text.size(), format, values);
    return 1;
  }

  static tmsize_t read(thandle_t self, void* to, tmsize_t wanted) {
    TiffFile& file = of(self);
    const std::size_t count =
        file.bytes_.read_at(file.at_, static_cast<char*>(to), static_cast<std::size_t>(wanted));
    file.at_ += count;
    return static_cast<tmsize_t>(count);
  }
  static tmsize_t write(thandle_t, void*, tmsize_t) { return 0; }
  static toff_t seek(thandle_t self, toff_t offset, int whence) {
    TiffFile& file = of(self);
    const toff_t from = whence == SEEK_SET   ? 0
                        : whence == SEEK_CUR ? file.at_
                                             : file.bytes_.size_bytes();
    return file.at_ = from + offset;
  }
  static int close(thandle_t) { return 0; }
  static toff_t size(thandle_t self) { return of(self).bytes_.size_bytes(); }
  static int map(thandle_t self, void** base, toff_t* size_bytes) {
    const std::string_view all = of(self).bytes_.in_memory();
    if (all.empty()) return 0;
    // libtiff only reads what it maps of a file opened for reading.
    *base = const_cast<char*>(all.data());
    *size_bytes = all.size();
    return 1;
  }
  static void unmap(thandle_t, void*, toff_t) {}

  ImageBytes bytes_;
  std::uint64_t at_ = 0;
  TIFF* tiff_ = nullptr;
  Text error_{}, warning_{};
  int warning_count_ = 0;
};

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

// The meanings of the samples after those of the colours; of most files there are none.
std::vector<std::uint16_t> extra_samples(const TiffFile& file) {
  std::uint16_t count = 0;
  std::uint16_t* kinds = nullptr;
  if (TIFFGetFieldDefaulted(file.get(), TIFFTAG_EXTRASAMPLES, &count, &kinds) != 1) return {};
  return {kinds, kinds + count};
}

// What a sample is must be known, and how it looks must not be a matter of choice.
std::optional<DecodeStatus> unknown_samples(const TiffFile& file) {
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
  if (bits > 8) {
    return unsupported(cat("of ", bits, "-bit samples, whose range is not known (want 8 bits)"));
  }
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

// What a premultiplied sample was, as Pillow computes it.
std::uint8_t unmultiplied(std::uint32_t sample, std::uint32_t alpha) {
  if (alpha == 0 || alpha == 255) return static_cast<std::uint8_t>(sample);
  return static_cast<std::uint8_t>(std::min(255U, 255 * sample / alpha));
}

// `height` rows of libtiff's four bytes a pixel, `row_pixels` a row, become `width` pixels of three
// in place.
void pack_rgb(std::uint8_t* rgb, const ImageSize& size, std::size_t row_pixels,
              bool is_premultiplied) {
  const std::uint8_t* const from = rgb;
  const auto width = static_cast<std::size_t>(size.width);
  for (std::size_t y = 0; y < static_cast<std::size_t>(size.height); ++y) {
    for (std::size_t x = 0; x < width; ++x, rgb += 3) {
      std::uint32_t pixel = 0;
      std::memcpy(&pixel, from + 4 * (y * row_pixels + x), sizeof pixel);
      const std::uint32_t alpha = is_premultiplied ? TIFFGetA(pixel) : 255;
      rgb[0] = unmultiplied(TIFFGetR(pixel), alpha);
      rgb[1] = unmultiplied(TIFFGetG(pixel), alpha);
      rgb[2] = unmultiplied(TIFFGetB(pixel), alpha);
    }
  }
}

// Pixels of a row with whole tiles: where they must be clipped, libtiff (4.5) shears grey with
// alpha.
std::uint32_t row_pixels_of(const TiffFile& file, std::uint32_t width) {
  if (TIFFIsTiled(file.get()) == 0) return width;
  const std::uint32_t tile =
      std::clamp(file.field<std::uint32_t>(TIFFTAG_TILEWIDTH), 1U, kMaxSidePx);
  return (width + tile - 1) / tile * tile;
}

// Plain pixels take their room in the file.
bool is_cut(const TiffFile& file, std::uint64_t pixels, std::size_t size_bytes) {
  if (file.field<std::uint16_t>(TIFFTAG_COMPRESSION) != COMPRESSION_NONE) return false;
  const bool has_few_chroma = file.field<std::uint16_t>(TIFFTAG_PHOTOMETRIC) == PHOTOMETRIC_YCBCR;
  const std::uint64_t samples =
      has_few_chroma ? 1 : file.field<std::uint16_t>(TIFFTAG_SAMPLESPERPIXEL);
  const std::uint64_t bits = file.field<std::uint16_t>(TIFFTAG_BITSPERSAMPLE);
  return pixels * samples * bits / 8 > size_bytes;
}

// The pixels of the first page.
class TiffPixels {
 public:
  explicit TiffPixels(const TiffFile& file) : file_(file) {}
  ~TiffPixels() {
    if (has_begun_) TIFFRGBAImageEnd(&image_);
  }
  TiffPixels(const TiffPixels&) = delete;
  TiffPixels& operator=(const TiffPixels&) = delete;

  // What libtiff would show, and whether that is what the file means. Once, before the others.
  DecodeStatus begin() {
    if (auto status = unknown_samples(file_)) return *status;
    std::vector<std::uint16_t> extras = extra_samples(file_);
    is_premultiplied_ = !extras.empty() && extras[0] == EXTRASAMPLE_ASSOCALPHA;
    if (!extras.empty()) {  // or libtiff would multiply the colours by it
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
    image_.orientation = image_.req_orientation = ORIENTATION_TOPLEFT;  // as it is stored
    width_ = static_cast<int>(image_.width);
    image_.width = row_pixels_of(file_, image_.width);
    warnings_before_ = file_.warning_count();
    return {.ok = true};
  }

  // Of a row of whole tiles.
  int row_pixels() const { return static_cast<int>(image_.width); }

  // `count` rows from row `from` on; `rgb` gets their room of four bytes a pixel, row_pixels() a
  // row, of which three for each of the image's pixels count then. False where they are damaged.
  bool read(int from, int count, std::vector<std::uint8_t>& rgb) {
    const auto rows = static_cast<std::uint32_t>(count);
    rgb.resize(std::size_t{4} * image_.width * rows);
    image_.row_offset = from;
    if (TIFFRGBAImageGet(&image_, reinterpret_cast<std::uint32_t*>(rgb.data()), image_.width,
                         rows) != 1) {
      return false;
    }
    pack_rgb(rgb.data(), {.width = width_, .height = count}, image_.width, is_premultiplied_);
    return true;
  }

  // After read(), which returned `ok`.
  DecodeStatus status(bool ok) const {
    if (!ok) return file_.damaged("its pixels cannot be read");
    DecodeStatus status{.ok = true, .warning_count = file_.warning_count()};
    if (status.warning_count > 0) status.first_warning = file_.last_warning();
    // JPEG data that end early are filled up with grey, and only this tells.
    status.truncated = file_.warning_count() > warnings_before_;
    return status;
  }

 private:
  const TiffFile& file_;
  TIFFRGBAImage image_{};
  bool has_begun_ = false, is_premultiplied_ = false;
  int width_ = 0, warnings_before_ = 0;
};

// The rows of a file, from its strips or rows of tiles, one of which is held.
class TiffRows : public FormatRows {
 public:
  TiffRows(const ImageBytes& bytes, const ImageSize& size)
      : file_(bytes, std::min(pixels_of(size), kDefaultMaxPixels)), size_(size) {}

  DecodeStatus open(std::uint64_t size_bytes) {
    if (file_.get() == nullptr) return file_.damaged("no directory");
    if (is_cut(file_, pixels_of(size_), size_bytes))
      return file_.damaged("the file ends too early");
    if (DecodeStatus status = pixels_.begin(); !status.ok) return status;
    const bool is_tiled = TIFFIsTiled(file_.get()) != 0;
    const auto rows =
        file_.field<std::uint32_t>(is_tiled ? TIFFTAG_TILELENGTH : TIFFTAG_ROWSPERSTRIP);
    const auto height = static_cast<std::uint32_t>(size_.height);
    band_rows_ = static_cast<int>(std::clamp(rows, 1U, height));
    std::string problem;
    if (has_too_many_pixels(pixels_.row_pixels(), band_rows_, kDefaultMaxPixels, problem)) {
      return unsupported(cat("whose ", is_tiled ? "tiles" : "strips", " have ", rows,
                             " rows, which must be held in memory: ", problem,
                             "; make it one of small tiles with tiffcp -t"));
    }
    set_tile_buffer(is_tiled);
    return pixels_.status(true);
  }

  bool read_row(std::uint8_t* rgb) override {
    const int first = next_ / band_rows_ * band_rows_;
    if (ok_ && first != band_first_) {
      ok_ = pixels_.read(first, std::min(band_rows_, size_.height - first), band_);
      band_first_ = first;
    }
    if (!ok_) return false;
    const std::size_t row_bytes = 3 * static_cast<std::size_t>(size_.width);
    std::memcpy(rgb, band_.data() + static_cast<std::size_t>(next_ - first) * row_bytes, row_bytes);
    ++next_;
    return true;
  }
  bool skip_rows(int count) override {
    next_ += count;
    return ok_;
  }
  int warning_count() const override { return file_.warning_count(); }
  DecodeStatus status() const override { return pixels_.status(ok_); }

 private:
  // Of plain tiles libtiff (4.5) takes no buffer but one of their size, and makes itself one of
  // whole KiB.
  void set_tile_buffer(bool is_tiled) {
    if (!is_tiled || file_.field<std::uint16_t>(TIFFTAG_COMPRESSION) != COMPRESSION_NONE) return;
    tile_.resize(static_cast<std::size_t>(std::max<tmsize_t>(TIFFTileSize(file_.get()), 0)));
    TIFFReadBufferSetup(file_.get(), tile_.data(), std::ssize(tile_));
  }

  std::vector<std::uint8_t> tile_{};
  TiffFile file_;
  TiffPixels pixels_{file_};
  ImageSize size_;
  int band_rows_ = 1, band_first_ = -1, next_ = 0;
  std::vector<std::uint8_t> band_{};
  bool ok_ = true;
};

}  // namespace

DecodeStatus read_tiff_size(std::string_view bytes, int& width, int& height) {
  const TiffFile file(ImageBytes(bytes), 0);
  return file.get() == nullptr ? file.damaged("no directory") : size_of(file, width, height);
}

int read_tiff_orientation(std::string_view bytes) {
  const TiffFile file(ImageBytes(bytes), 0);
  if (file.get() == nullptr) return ORIENTATION_TOPLEFT;
  const auto orientation = file.field<std::uint16_t>(TIFFTAG_ORIENTATION);
  return orientation >= 1 && orientation <= 8 ? orientation : ORIENTATION_TOPLEFT;
}

DecodeStatus decode_tiff(std::string_view bytes, std::uint64_t max_pixels, Image& out) {
  const std::uint64_t pixels = pixels_of({.width = out.width, .height = out.height});
  const TiffFile file(ImageBytes(bytes), pixels);
  if (file.get() == nullptr) return file.damaged("no directory");
  if (is_cut(file, pixels, bytes.size())) return file.damaged("the file ends too early");
  TiffPixels page(file);
  DecodeStatus status = page.begin();
  if (!status.ok) return status;
  if (has_too_many_pixels(page.row_pixels(), out.height, max_pixels, status.problem)) {
    status.ok = false;
    return status;
  }
  status = page.status(page.read(0, out.height, out.rgb));
  out.rgb.resize(3 * pixels);
  return status;
}

OpenRows open_tiff_rows(ImageBytes& bytes) {
  OpenRows out;
  {
    const TiffFile file(bytes, 0);
    out.status =
        file.get() == nullptr ? file.damaged("no directory") : size_of(file, out.width, out.height);
  }
  if (!out.status.ok) return out;
  auto rows = std::make_unique<TiffRows>(bytes, ImageSize{out.width, out.height});
  out.status = rows->open(bytes.size_bytes());
  if (out.status.ok) out.rows = std::move(rows);
  return out;
}

}  // namespace retina
