// An open TIFF of libtiff, with libtiff's messages: the same for pixels and tags.
#pragma once

#include <tiffio.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>
#include <string>

#include "shared/base/cat.h"
#include "shared/image/decode_status.h"
#include "shared/image/image_bytes.h"

namespace retina {

class TiffFile {
 public:
  // Opens the TIFF. `pixels`: number of the image's pixels, as far as it is known.
  TiffFile(const ImageBytes& bytes, std::uint64_t pixels)
      : bytes_(bytes), most_bytes_(kSpareBytes + std::max(8 * pixels, bytes.size_bytes())) {
    const std::unique_ptr<TIFFOpenOptions, void (*)(TIFFOpenOptions*)> options(
        TIFFOpenOptionsAlloc(), TIFFOpenOptionsFree);
    if (!options) throw std::bad_alloc();
    TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), static_cast<tmsize_t>(most_bytes_));
    TIFFOpenOptionsSetErrorHandlerExtR(options.get(), on_error, this);
    TIFFOpenOptionsSetWarningHandlerExtR(options.get(), on_warning, this);
    // libtiff copies the values of each tag, and many tags may point to the same bytes.
    std::uint64_t tag_bytes = 0;
    for_each_entry([&](const Entry& entry) {
      const bool has_width = entry.type <= TIFF_IFD8;
      const auto width = has_width ? TIFFDataWidth(static_cast<TIFFDataType>(entry.type)) : 0;
      tag_bytes += static_cast<std::uint64_t>(width) * std::min(entry.count, most_bytes_);
    });
    if (tag_bytes > most_bytes_) {
      std::snprintf(error_.data(), error_.size(), "its tags take more than %ju bytes",
                    static_cast<std::uintmax_t>(most_bytes_));
      return;
    }
    tiff_ = TIFFClientOpenExt("image", "r", this, read, write, seek, close, size, map, unmap,
                              options.get());
  }
  ~TiffFile() {
    if (tiff_ != nullptr) TIFFClose(tiff_);
  }
  TiffFile(const TiffFile&) = delete;
  TiffFile& operator=(const TiffFile&) = delete;

  TIFF* get() const { return tiff_; }  // nullptr: no directory could be read

  // Returns the value of a tag; 0 if there is neither the tag nor a default.
  template <class Value>
  Value field(ttag_t tag) const {
    Value value = 0;
    return TIFFGetFieldDefaulted(tiff_, tag, &value) == 1 ? value : Value{0};
  }

  // Returns the values of a tag that libtiff has no name for; none if they are of another type.
  template <class Value>
  std::span<const Value> values(ttag_t tag, TIFFDataType type) const {
    const TIFFField* const field = TIFFFindField(tiff_, tag, TIFF_ANY);
    if (field == nullptr || TIFFFieldDataType(field) != type) return {};
    if (TIFFFieldReadCount(field) != TIFF_VARIABLE2) return {};
    std::uint32_t count = 0;
    const Value* values = nullptr;
    if (TIFFGetField(tiff_, tag, &count, &values) != 1 || values == nullptr) return {};
    return {values, count};
  }

  // Returns the number of strips or tiles, over all planes.
  std::uint32_t part_count() const {
    return TIFFIsTiled(tiff_) != 0 ? TIFFNumberOfTiles(tiff_) : TIFFNumberOfStrips(tiff_);
  }
  // Returns the strip or tile with `plane` of the pixel.
  std::uint32_t part_at(std::uint32_t x, std::uint32_t y, std::uint16_t plane) const {
    return TIFFIsTiled(tiff_) != 0 ? TIFFComputeTile(tiff_, x, y, 0, plane)
                                   : TIFFComputeStrip(tiff_, y, plane);
  }
  // Returns true if GDAL (SPARSE_OK) left the part out because it has no data. Valid only after
  // check_parts() found nothing wrong.
  bool is_left_out(std::uint32_t part) const {
    return TIFFGetStrileByteCount(tiff_, part) == 0 && TIFFGetStrileOffset(tiff_, part) == 0;
  }
  std::uint32_t left_out_count() const {
    std::uint32_t left_out = 0;
    for (std::uint32_t part = part_count(); part > 0;) left_out += is_left_out(--part) ? 1 : 0;
    return left_out;
  }
  // Returns what is wrong with the sizes or places of strips or tiles; "" if each is in the file or
  // left out. libtiff (4.5) reads plain ones by their offset alone, whatever is there, accepts only
  // plain tiles of exactly their pixels' size, and returns zeros for parts that are not listed.
  std::string check_parts() {
    const bool is_tiled = TIFFIsTiled(tiff_) != 0;
    const auto compression = field<std::uint16_t>(TIFFTAG_COMPRESSION);
    const char* const kind = is_tiled ? "tile" : "strip";
    const std::uint64_t whole = is_tiled ? TIFFTileSize64(tiff_) : TIFFStripSize64(tiff_);
    if (whole == 0 || whole > most_bytes_) {
      return cat("its ", kind, "s take ", whole, " bytes each (want at most ", most_bytes_, ")");
    }
    if (compression == COMPRESSION_OJPEG) return "";  // refused: unknown_samples()
    const std::uint64_t end = bytes_.size_bytes(), listed = listed_part_count();
    const std::uint32_t count = part_count();
    for (std::uint32_t part = 0; part < count; ++part) {
      if (is_left_out(part)) {
        if (listed >= count) continue;
        return cat("it lists ", listed, " of its ", count, " ", kind, "s");
      }
      const std::uint64_t at = TIFFGetStrileOffset(tiff_, part);
      const std::uint64_t bytes = TIFFGetStrileByteCount(tiff_, part);
      const std::uint64_t least = compression == COMPRESSION_NONE ? plain_bytes(part) : 1;
      const std::uint64_t most = is_tiled && compression == COMPRESSION_NONE ? least : end;
      if (at > 0 && bytes >= least && bytes <= most && bytes <= end && at <= end - bytes) continue;
      return cat(kind, " ", part, " is not in the file (", bytes, " bytes at byte ", at, ")");
    }
    return "";
  }
  // Returns the sample of a pixel without data, as GDAL notes it; 0 without a note.
  double nodata() const {
    constexpr ttag_t kGdalNodata = 42113;
    const auto note = values<char>(kGdalNodata, TIFF_ASCII);
    const double value = std::strtod(std::string(note.begin(), note.end()).c_str(), nullptr);
    return std::isfinite(value) ? std::round(value) : 0;
  }

  DecodeStatus damaged(const std::string& problem) const {
    bytes_.rethrow();
    const std::string text = error_[0] != '\0' ? error_.data() : problem;
    return {.ok = false, .problem = cat("damaged TIFF: ", text)};
  }
  // Returns the status of everything read so far. JPEG data that end early are filled up with grey,
  // and only a warning after those of the header reveals it.
  DecodeStatus read_status(int warnings_before) const {
    return {.ok = true,
            .first_warning = warning_.data(),
            .truncated = warning_count_ > warnings_before};
  }
  int warning_count() const { return warning_count_; }

 private:
  // Memory that libtiff and a strip or tile may use at once, however small image and file are.
  static constexpr std::uint64_t kSpareBytes = std::uint64_t{64} << 20;

  using Text = std::array<char, 200>;

  // Reads a number of the file.
  template <class Value>
  Value number_at(std::uint64_t offset) {
    std::array<std::uint8_t, sizeof(Value)> bytes{};
    bytes_.read_at(offset, reinterpret_cast<char*>(bytes.data()), bytes.size());
    Value value = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const std::size_t from_low = is_big_endian_ ? bytes.size() - 1 - i : i;
      value |= static_cast<Value>(static_cast<Value>(bytes[i]) << (8 * from_low));
    }
    return value;
  }
  // Returns the size of an uncompressed strip or tile.
  std::uint64_t plain_bytes(std::uint32_t part) const {
    if (TIFFIsTiled(tiff_) != 0) return TIFFTileSize64(tiff_);
    const auto height = field<std::uint32_t>(TIFFTAG_IMAGELENGTH);
    const auto rows = std::clamp(field<std::uint32_t>(TIFFTAG_ROWSPERSTRIP), 1U, height);
    const std::uint32_t first = part % ((height + rows - 1) / rows) * rows;
    return TIFFVStripSize64(tiff_, std::min(rows, height - first));
  }
  struct Entry {
    std::uint16_t tag = 0, type = 0;
    std::uint64_t count = 0;
  };
  // Calls `use` for the entries of the first page's directory, as far as the file has them. TIFF
  // 6.0, section 2.
  template <class Use>
  void for_each_entry(const Use& use) {
    is_big_endian_ = number_at<std::uint8_t>(0) == 'M';
    const bool is_big = number_at<std::uint16_t>(2) == 43;
    std::uint64_t at = is_big ? number_at<std::uint64_t>(8) : number_at<std::uint32_t>(4);
    const std::uint64_t count =
        is_big ? number_at<std::uint64_t>(at) : number_at<std::uint16_t>(at);
    at += is_big ? 8 : 2;
    for (std::uint64_t i = 0; i < count && at < bytes_.size_bytes(); ++i, at += is_big ? 20 : 12) {
      use(Entry{
          .tag = number_at<std::uint16_t>(at),
          .type = number_at<std::uint16_t>(at + 2),
          .count = is_big ? number_at<std::uint64_t>(at + 4) : number_at<std::uint32_t>(at + 4)});
    }
  }
  // Returns the number of strips or tiles whose places the directory lists.
  std::uint64_t listed_part_count() {
    std::uint64_t listed = 0;
    for_each_entry([&](const Entry& entry) {
      const bool lists = entry.tag == TIFFTAG_TILEOFFSETS || entry.tag == TIFFTAG_STRIPOFFSETS;
      if (lists && listed == 0) listed = entry.count;
    });
    return listed;
  }

  static TiffFile& of(void* self) { return *static_cast<TiffFile*>(self); }

  // Keeps the first error, which is the cause.
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
    // libtiff only reads the mapped bytes of a file opened for reading.
    *base = const_cast<char*>(all.data());
    *size_bytes = all.size();
    return 1;
  }
  static void unmap(thandle_t, void*, toff_t) {}

  ImageBytes bytes_;
  std::uint64_t most_bytes_;  // limit for a strip or tile, and for all tags
  bool is_big_endian_ = false;
  std::uint64_t at_ = 0;
  TIFF* tiff_ = nullptr;
  Text error_{}, warning_{};
  int warning_count_ = 0;
};

}  // namespace retina
