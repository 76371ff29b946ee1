#include "shared/image/row_reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "shared/base/cat.h"
#include "shared/image/image_file.h"

namespace retina {
namespace {

// Bytes of a file that are enough to recognise it.
constexpr std::size_t kStartBytes = 512;

OpenOptions open_options(const RowOptions& options) {
  return {.jpeg_shrink = options.jpeg_shrink, .is_deep = options.stretch.has_value()};
}

// Counts the samples of an image.
class SampleHistogram {
 public:
  void add(const std::uint16_t* rgb, int pixel_count) {
    for (int i = 0; i < pixel_count; ++i, rgb += 3) {
      for (std::size_t c = 0; c < 3; ++c) ++counts_[c * kValues + rgb[c]];
    }
    pixel_count_ += static_cast<std::uint64_t>(pixel_count);
  }

  // Returns the new value of each sample of a channel: 0 up to the smallest value that at least
  // `low` percent of all do not exceed, 255 from that of `high` percent on, rounded between.
  std::array<std::vector<std::uint8_t>, 3> tables(const Stretch& stretch) const {
    std::array<std::vector<std::uint8_t>, 3> tables;
    for (std::size_t c = 0; c < 3; ++c) {
      const std::uint64_t* const counts = counts_.data() + c * kValues;
      const auto percentile = [&](double percent) {
        const double wanted = percent / 100 * static_cast<double>(pixel_count_);
        std::uint64_t sum = 0;
        for (std::size_t value = 0; value < kValues; ++value) {
          sum += counts[value];
          if (sum > 0 && static_cast<double>(sum) >= wanted) return static_cast<double>(value);
        }
        return static_cast<double>(kValues - 1);
      };
      const double low = percentile(stretch.low), high = percentile(stretch.high);
      tables[c].resize(kValues);
      for (std::size_t value = 0; value < kValues; ++value) {
        const double above = static_cast<double>(value) - low;
        const double share = above <= 0 ? 0 : above >= high - low ? 1 : above / (high - low);
        tables[c][value] = static_cast<std::uint8_t>(std::lround(255 * share));
      }
    }
    return tables;
  }

 private:
  static constexpr std::size_t kValues = 1 << 16;
  std::vector<std::uint64_t> counts_ = std::vector<std::uint64_t>(3 * kValues);  // [3, kValues]
  std::uint64_t pixel_count_ = 0;
};

}  // namespace

RowReader::RowReader(const std::string& path, const RowOptions& options)
    : file_(path), bytes_(*file_) {
  open(options);
}

RowReader::RowReader(const ImageBytes& bytes, const RowOptions& options) : bytes_(bytes) {
  open(options);
}

RowReader::~RowReader() = default;

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
  OpenRows opened = open_rows(format_, bytes_, open_options(options));
  status_ = std::move(opened.status);
  width_ = opened.width;
  height_ = opened.height;
  rows_ = std::move(opened.rows);
  if (status_.ok && rows_->is_deep()) stretch(options);
}

// Counts the samples of all rows, and begins again.
void RowReader::stretch(const RowOptions& options) {
  SampleHistogram histogram;
  deep_row_.resize(3 * static_cast<std::size_t>(width_));
  for (; next_row_ < height_; ++next_row_) {
    if (!rows_->read_deep_row(deep_row_.data())) {
      update();
      return;
    }
    histogram.add(deep_row_.data(), width_);
  }
  rows_ = open_rows(format_, bytes_, open_options(options)).rows;
  tables_ = histogram.tables(*options.stretch);
  next_row_ = 0;
}

bool RowReader::read_row(std::uint8_t* rgb) {
  if (!rows_->is_deep()) return rows_->read_row(rgb);
  if (!rows_->read_deep_row(deep_row_.data())) return false;
  for (std::size_t i = 0; i < deep_row_.size(); ++i) rgb[i] = tables_[i % 3][deep_row_[i]];
  return true;
}

void RowReader::update() {
  status_ = rows_->status();
  // An unsupported image has no row to name.
  if (!status_.ok && !status_.unsupported) status_.problem += cat(" (at row ", next_row_, ")");
}

const DecodeStatus& RowReader::read(int count, Image& out) {
  if (!status_.ok) return status_;
  const int wanted = std::clamp(count, 0, height_ - next_row_);
  const std::size_t row_bytes = static_cast<std::size_t>(width_) * 3;
  out.width = width_;
  out.height = wanted;
  out.rgb.resize(row_bytes * static_cast<std::size_t>(wanted));
  std::uint8_t* row = out.rgb.data();
  for (int i = 0; i < wanted; ++i, row += row_bytes) {
    if (!read_row(row)) break;
    ++next_row_;
  }
  update();
  return status_;
}

const DecodeStatus& RowReader::skip(int count) {
  if (!status_.ok) return status_;
  const int wanted = std::clamp(count, 0, height_ - next_row_);
  if (wanted > 0 && rows_->skip_rows(wanted)) next_row_ += wanted;
  update();
  return status_;
}

bool may_be_stretched(ImageBytes bytes) {
  std::array<char, kStartBytes> start{};
  const std::size_t count = bytes.read_at(0, start.data(), start.size());
  bytes.rethrow();
  const std::string format = image_format({start.data(), count});
  return (format == "TIFF" || format == "PNG") &&
         open_rows(format, bytes, {.is_deep = true}).status.ok;
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
