#include "shared/image/row_reader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "shared/base/cat.h"
#include "shared/image/image_file.h"

namespace retina {
namespace {

// Bytes of a file that are enough to recognise it.
constexpr std::size_t kStartBytes = 512;

// Rows of an image that can only be decoded whole.
class WholeRows : public FormatRows {
 public:
  WholeRows(DecodeStatus status, Image image)
      : status_(std::move(status)), image_(std::move(image)) {}

  bool read_row(std::uint8_t* rgb) override {
    std::memcpy(rgb, image_.pixel(0, next_), 3 * static_cast<std::size_t>(image_.width));
    return skip_rows(1);
  }
  bool skip_rows(int count) override {
    next_ += count;
    return true;
  }
  int warning_count() const override { return status_.warning_count; }
  DecodeStatus status() const override { return status_; }

 private:
  DecodeStatus status_;
  Image image_;
  int next_ = 0;
};

OpenRows open_whole(ImageBytes& content, const std::string& cure) {
  std::string bytes(content.size_bytes(), '\0');
  bytes.resize(content.read_at(0, bytes.data(), bytes.size()));
  content.rethrow();
  OpenRows out;
  JpegDecoder decoder;
  Image image;
  out.status = read_any_size(bytes, decoder, image.width, image.height);
  if (!out.status.ok) return out;
  if (has_too_many_pixels(image.width, image.height, kDefaultMaxPixels, out.status.problem)) {
    out.status.ok = false;
    out.status.unsupported = true;
    out.status.problem += cure;
    return out;
  }
  out.status = decode_any_image(bytes, decoder, image);
  if (!out.status.ok) return out;
  out.width = image.width;
  out.height = image.height;
  out.rows = std::make_unique<WholeRows>(out.status, std::move(image));
  return out;
}

}  // namespace

RowReader::RowReader(const std::string& path, const RowOptions& options)
    : file_(path), bytes_(*file_) {
  open(options);
}

RowReader::RowReader(const ImageBytes& bytes, const RowOptions& options) : bytes_(bytes) {
  open(options);
}

RowReader::~RowReader() = default;

OpenRows RowReader::open_rows(const RowOptions& options) {
  if (format_ == "JPEG") return open_jpeg_rows(bytes_, options.jpeg_shrink);
  if (format_ == "TIFF") return open_tiff_rows(bytes_, options.stretch.has_value());
  if (format_ == "PNG") {
    OpenRows out = open_png_rows(bytes_, options.stretch.has_value());
    if (!out.status.ok || out.rows != nullptr) return out;
    return open_whole(bytes_, "; an interlaced PNG must be held in memory: make it a plain one");
  }
  return open_whole(bytes_, "; a WebP must be held in memory: make it a tiled TIFF");
}

void RowReader::open(const RowOptions& options) {
  std::array<char, kStartBytes> start{};
  const std::size_t count = bytes_.read_at(0, start.data(), start.size());
  bytes_.rethrow();
  const std::string_view begin(start.data(), count);
  format_ = image_format(begin);
  if (!is_image_format(format_)) {
    status_ = {.ok = false, .problem = describe_other_format(begin, kImageFormats)};
    return;
  }
  OpenRows opened = open_rows(options);
  status_ = std::move(opened.status);
  width_ = opened.width;
  height_ = opened.height;
  rows_ = std::move(opened.rows);
  if (status_.ok && rows_->is_deep()) stretch(options);
}

// Counts the samples of all rows, and begins again.
void RowReader::stretch(const RowOptions& options) {
  SampleHistogram histogram;
  std::vector<std::uint16_t> row(3 * static_cast<std::size_t>(width_));
  for (; next_row_ < height_; ++next_row_) {
    if (!rows_->read_deep_row(row.data())) {
      update();
      return;
    }
    histogram.add(row.data(), width_);
  }
  rows_ = stretched_rows(open_rows(options).rows, width_, histogram.tables(*options.stretch));
  next_row_ = 0;
}

int RowReader::bounded(int count) const {
  return std::clamp(count, 0, height_ - next_row_);
}

// Notes the row of the warning that status() reports: the first one, except for a TIFF, whose tags
// may be unknown to libtiff, the last.
void RowReader::note_warning(int warnings_before) {
  const bool is_told = warnings_before == 0 || format_ == "TIFF";
  if (is_told && rows_->warning_count() > warnings_before) warning_row_ = next_row_;
}

void RowReader::update() {
  status_ = rows_->status();
  if (status_.unsupported) return;  // every byte of the file
  if (!status_.ok) {
    const bool began_before = warning_row_ && format_ != "TIFF";
    const std::string first =
        began_before ? cat(status_.first_warning, " (at row ", *warning_row_, "), then ") : "";
    status_.problem = cat(first, status_.problem, " (at row ", next_row_, ")");
  } else if (warning_row_) {
    status_.first_warning += cat(" (at row ", *warning_row_, ")");
  }
}

const DecodeStatus& RowReader::read(int count, Image& out) {
  if (!status_.ok) return status_;
  const int wanted = bounded(count);
  const std::size_t row_bytes = static_cast<std::size_t>(width_) * 3;
  out.width = width_;
  out.height = wanted;
  out.rgb.resize(row_bytes * static_cast<std::size_t>(wanted));
  std::uint8_t* row = out.rgb.data();
  for (int i = 0; i < wanted; ++i, row += row_bytes) {
    const int warnings_before = rows_->warning_count();
    if (!rows_->read_row(row)) break;
    note_warning(warnings_before);
    ++next_row_;
  }
  update();
  return status_;
}

const DecodeStatus& RowReader::skip(int count) {
  if (!status_.ok) return status_;
  const int wanted = bounded(count);
  const int warnings_before = rows_->warning_count();
  if (wanted > 0 && rows_->skip_rows(wanted)) {
    note_warning(warnings_before);
    next_row_ += wanted;
  }
  update();
  return status_;
}

bool may_be_stretched(ImageBytes bytes) {
  std::array<char, kStartBytes> start{};
  const std::size_t count = bytes.read_at(0, start.data(), start.size());
  bytes.rethrow();
  const std::string format = image_format({start.data(), count});
  if (format == "TIFF") return open_tiff_rows(bytes, true).status.ok;
  return format == "PNG" && open_png_rows(bytes, true).rows != nullptr;
}

DecodeStatus decode_stretched(std::string_view bytes, const Stretch& stretch, Image& out) {
  RowReader reader(ImageBytes(bytes), {.stretch = stretch});
  DecodeStatus status = reader.status();
  if (!status.ok) return status;
  if (has_too_many_pixels(reader.width(), reader.height(), kDefaultMaxPixels, status.problem)) {
    status.ok = false;
    return status;
  }
  return reader.read(reader.height(), out);
}

ReducedImage read_reduced(const std::string& path, int max_side_px,
                          const std::optional<Stretch>& stretch) {
  ReducedImage out;
  std::optional<RowReader> opened(std::in_place, path, RowOptions{.stretch = stretch});
  out.status = opened->status();
  if (!out.status.ok) return out;
  out.width = opened->width();
  out.height = opened->height();
  const int divisor = (std::max(out.width, out.height) + max_side_px - 1) / max_side_px;
  int shrink = 1;
  for (const int possible : {2, 4, 8}) {
    if (opened->format() == "JPEG" && divisor % possible == 0) shrink = possible;
  }
  if (shrink > 1) opened.emplace(path, RowOptions{.jpeg_shrink = shrink});
  out.status = opened->status();
  if (!out.status.ok) return out;
  RowReader& reader = *opened;
  const int square = divisor / shrink;
  const auto parts = [](int length, int part) { return (length + part - 1) / part; };
  out.image = Image(parts(reader.width(), square), parts(reader.height(), square));
  const auto width = static_cast<std::size_t>(reader.width());
  Image rows;
  std::vector<std::uint32_t> sums;  // [image.width, 3]
  for (int y = 0; y < out.image.height; ++y) {
    out.status = reader.read(square, rows);
    if (!out.status.ok) return out;
    sums.assign(3 * static_cast<std::size_t>(out.image.width), 0);
    const std::uint8_t* pixel = rows.rgb.data();
    for (int row = 0; row < rows.height; ++row) {
      for (std::size_t x = 0; x < width; ++x, pixel += 3) {
        std::uint32_t* const sum = &sums[x / static_cast<std::size_t>(square) * 3];
        for (int c = 0; c < 3; ++c) sum[c] += pixel[c];
      }
    }
    std::uint8_t* to = out.image.pixel(0, y);
    for (int x = 0; x < out.image.width; ++x) {
      const int columns = std::min(square, reader.width() - x * square);
      const auto count = static_cast<std::uint32_t>(columns * rows.height);
      for (std::size_t c = 0; c < 3; ++c) {
        *to++ = static_cast<std::uint8_t>((sums[3 * static_cast<std::size_t>(x) + c] + count / 2) /
                                          count);
      }
    }
  }
  return out;
}

}  // namespace retina
