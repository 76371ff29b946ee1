// An open TIFF as libtiff has it, and what libtiff says about it: the same for pixels and tags.
#pragma once

#include <tiffio.h>

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

  // The values of a tag that libtiff has no name for; none where they are of another type.
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

  // Strips or tiles, of all planes.
  std::uint32_t part_count() const {
    return TIFFIsTiled(tiff_) != 0 ? TIFFNumberOfTiles(tiff_) : TIFFNumberOfStrips(tiff_);
  }
  // That of the pixel, which has `plane`.
  std::uint32_t part_at(std::uint32_t x, std::uint32_t y, std::uint16_t plane) const {
    return TIFFIsTiled(tiff_) != 0 ? TIFFComputeTile(tiff_, x, y, 0, plane)
                                   : TIFFComputeStrip(tiff_, y, plane);
  }
  // Whether GDAL (SPARSE_OK) left it out because no pixel of it has data.
  bool is_left_out(std::uint32_t part) const {
    return TIFFGetStrileByteCount(tiff_, part) == 0 && TIFFGetStrileOffset(tiff_, part) == 0;
  }
  bool has_left_out() {
    const std::uint32_t count = part_count();
    std::uint32_t part = 0;
    while (part < count && !is_left_out(part)) ++part;
    // Where the file lists too few, libtiff puts zeros.
    return part < count && listed_part_count() >= count;
  }
  // The sample of a pixel without data, as GDAL notes it; 0 without a note.
  double nodata() const {
    constexpr ttag_t kGdalNodata = 42113;
    const auto note = values<char>(kGdalNodata, TIFF_ASCII);
    const double value = std::strtod(std::string(note.begin(), note.end()).c_str(), nullptr);
    return std::isfinite(value) ? std::round(value) : 0;
  }

  DecodeStatus damaged(const char* problem = "") const {
    bytes_.rethrow();
    const char* const text = error_[0] != '\0' ? error_.data() : problem;
    return {.ok = false, .problem = cat("damaged TIFF: ", text), .warning_count = warning_count_};
  }
  int warning_count() const { return warning_count_; }
  const char* last_warning() const { return warning_.data(); }

 private:
  // What libtiff may take at once beside the pixels of a strip or tile.
  static constexpr std::uint64_t kSpareBytes = std::uint64_t{64} << 20;

  using Text = std::array<char, 200>;

  // A number of the file.
  template <class Value>
  Value number_at(std::uint64_t offset) {
    std::array<std::uint8_t, sizeof(Value)> bytes{};
    bytes_.read_at(offset, reinterpret_cast<char*>(bytes.data()), bytes.size());
    Value value = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const std::size_t from_low = TIFFIsBigEndian(tiff_) != 0 ? bytes.size() - 1 - i : i;
      value |= static_cast<Value>(static_cast<Value>(bytes[i]) << (8 * from_low));
    }
    return value;
  }
  // How many strips or tiles the page's directory says where they are of. TIFF 6.0, section 2.
  std::uint64_t listed_part_count() {
    const bool is_big = TIFFIsBigTIFF(tiff_) != 0;
    const ttag_t tag = TIFFIsTiled(tiff_) != 0 ? TIFFTAG_TILEOFFSETS : TIFFTAG_STRIPOFFSETS;
    std::uint64_t at = TIFFCurrentDirOffset(tiff_);
    const std::uint64_t count =
        is_big ? number_at<std::uint64_t>(at) : number_at<std::uint16_t>(at);
    at += is_big ? 8 : 2;
    for (std::uint64_t i = 0; i < count && at < bytes_.size_bytes(); ++i, at += is_big ? 20 : 12) {
      if (number_at<std::uint16_t>(at) != tag) continue;
      return is_big ? number_at<std::uint64_t>(at + 4) : number_at<std::uint32_t>(at + 4);
    }
    return 0;
  }

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

}  // namespace retina
