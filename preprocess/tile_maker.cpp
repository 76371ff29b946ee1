#include "preprocess/tile_maker.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/printable.h"
#include "shared/image/image_file.h"

namespace retina {
namespace {

// Rows that are decoded at a time.
constexpr int kRowsAtOnce = 16;
// As much of a file as tells what it is.
constexpr std::size_t kStartBytes = 512;

std::string problem_of(const DecodeStatus& status) {
  return unusable_reason(status, policy_on_foreign_files(status));
}

// A band of an image's rows that moves downwards.
class RowBand {
 public:
  RowBand(const std::string& path, const RowOptions& options) : reader_(path, options) {}

  // The rows first..first+count-1, which begin at or below those of the call before. Nothing where
  // they could not be decoded, as problem() says.
  const Image* move_to(int first, int count) {
    // What stays moves up; what comes later than this is never needed again.
    const int kept = std::max(0, first_ + rows_.height - first);
    const std::size_t row_bytes = static_cast<std::size_t>(reader_.width()) * 3;
    if (kept > 0) {
      std::memmove(rows_.rgb.data(), rows_.pixel(0, rows_.height - kept),
                   row_bytes * static_cast<std::size_t>(kept));
    } else if (first > reader_.next_row()) {
      // A continued packing: rows in between are decoded, so that damage shows.
      if (!read_to(first)) return nullptr;
    }
    rows_.width = reader_.width();
    rows_.height = count;
    rows_.rgb.resize(row_bytes * static_cast<std::size_t>(count));
    first_ = first;
    for (int row = kept; row < count; row += piece_.height) {
      if (!read(count - row)) return nullptr;
      std::memcpy(rows_.pixel(0, row), piece_.rgb.data(), piece_.rgb.size());
    }
    return &rows_;
  }

  // Decodes and forgets the rows above `row`; false as for move_to().
  bool read_to(int row) {
    while (reader_.next_row() < row) {
      if (!read(row - reader_.next_row())) return false;
    }
    return true;
  }

  const RowReader& reader() const { return reader_; }
  std::string problem() const { return problem_of(reader_.status()); }

 private:
  bool read(int count) {
    reader_.read(std::min(count, kRowsAtOnce), piece_);
    return problem().empty() && piece_.height > 0;
  }

  RowReader reader_;
  Image rows_{}, piece_{};
  int first_ = 0;
};

Image cut_out(const Image& rows, const TileRect& tile) {
  Image pixels(tile.width, tile.height);
  for (int y = 0; y < tile.height; ++y) {
    std::memcpy(pixels.pixel(0, y), rows.pixel(tile.x, y),
                static_cast<std::size_t>(tile.width) * 3);
  }
  return pixels;
}

std::string tile_name(const std::string& path, const TileRect& tile, const ImageSize& image) {
  return cat(
      path, ": ",
      tile_text(
          {.x = tile.x, .y = tile.y, .image_width = image.width, .image_height = image.height},
          tile.width, tile.height));
}

}  // namespace

std::uint64_t tile_row_bytes(int image_width, const TileRule& rule) {
  return static_cast<std::uint64_t>(image_width) * static_cast<std::uint64_t>(rule.side_px) * 3;
}

TileMaker::TileMaker(const ManifestOptions& options, const ImageSource& images)
    : options_(options), images_(images) {}

std::optional<FileProblem> TileMaker::check_pixels(const PlannedImage& planned,
                                                   const Opened& opened) const {
  RowBand band(opened.path, {.stretch = parse_stretch(options_.stretch)});
  const RowReader& reader = band.reader();
  const std::string& format = reader.format();
  const bool is_taken = format == "JPEG" || (options_.convert && is_image_format(format));
  if (!format.empty() && !is_taken) {
    return FileProblem{
        .kind = "format",
        .reason = describe_other_format(read_start(opened.path, kStartBytes), "JPEG"),
        .hint = is_image_format(format) ? kConvertHint : ""};
  }
  const auto problem_now = [&]() -> std::optional<FileProblem> {
    const std::string problem = band.problem();
    if (problem.empty()) return std::nullopt;
    const DecodeStatus status = reader.status();
    const FileReader file(opened.path);
    return FileProblem{
        .kind = status.unsupported ? "format" : "damaged",
        .reason = problem,
        .hint = hint_of_unsupported(status, !options_.stretch.empty(), ImageBytes(file))};
  };
  if (auto problem = problem_now()) return problem;
  const ImageSize size{.width = reader.width(), .height = reader.height()};
  const ImageSize& stated = planned.stated_size.value();
  if (size.width != stated.width || size.height != stated.height) {
    return other_size(size, stated, false, false);
  }
  if (const auto reason = problem_of_row(size, options_.tile->side_px); !reason.empty()) {
    return FileProblem{.kind = "too-large", .reason = reason};
  }
  if (options_.check == ImageCheck::kHeader) return std::nullopt;
  band.read_to(size.height);
  return problem_now();
}

std::optional<FileProblem> TileMaker::open(const PlannedImage& planned, Opened& out) const {
  FoundFile file;
  if (auto problem = images_.find(planned.file_name, file)) return problem;
  out.path = file.path;
  out.found_as = file.name == planned.file_name ? "" : file.name;
  // Asked before the file is read: a change meanwhile shows.
  out.modified_ns = modified_ns(file.path);
  return unless_too_large([&] { return check_pixels(planned, out); });
}

std::optional<QuarantinedImage> TileMaker::fault_of(const PlannedImage& planned) const {
  Opened opened;
  const auto problem = open(planned, opened);
  if (!problem) return std::nullopt;
  return bad_image(planned, *problem).bad;
}

MadeRecord TileMaker::make_tile(const PlannedImage& planned, const PlannedTile& tile,
                                const Opened& opened, const Image& rows) const {
  const TileRect& place = tile.place;
  const ImageSize& image = planned.stated_size.value();
  MadeRecord made{.record = {.image_id = planned.id,
                             .file_name = planned.file_name,
                             .width = place.width,
                             .height = place.height,
                             .converted = !opened.is_jpeg,
                             .encoding = options_.encoding,
                             .annotations = tile.annotations,
                             .tile = TilePlace{.x = place.x,
                                               .y = place.y,
                                               .image_width = image.width,
                                               .image_height = image.height}}};
  if (tile.number == 0) {
    made.record.whole_annotations.emplace(planned.annotations.begin(), planned.annotations.end());
  }
  const Image pixels = cut_out(rows, place);
  // A JPEG's colours had half the resolution before.
  const std::string stored =
      options_.encoding == ImageEncoding::kRaw
          ? std::string(pixels.rgb.begin(), pixels.rgb.end())
          : encode_jpeg(pixels, options_.quality,
                        opened.is_jpeg ? ChromaSize::kHalf : ChromaSize::kFull);
  made.image_xxh3 = xxh3(stored);
  encode_made(made, stored);
  return made;
}

void TileMaker::make(const PlannedImage& planned, std::size_t first_tile, const PutRecord& put) {
  Opened opened;
  if (const auto problem = open(planned, opened)) {
    if (first_tile == 0) return put(bad_image(planned, *problem));
    throw Error(ErrorKind::kData,
                cat(escaped(planned.file_name),
                    ": finished shards have tiles of it, and now: ", problem->reason),
                "restore the image, or start afresh with --overwrite");
  }
  std::vector<PlannedTile> tiles = plan_tiles(planned, *options_.tile);
  std::erase_if(tiles, [&](const PlannedTile& tile) { return tile.number < first_tile; });

  RowBand band(opened.path, {.stretch = parse_stretch(options_.stretch)});
  opened.is_jpeg = band.reader().format() == "JPEG";
  const Image* rows = nullptr;
  for (std::size_t i = 0; i < tiles.size(); ++i) {
    const TileRect& place = tiles[i].place;
    const bool is_new_row = i == 0 || place.y != tiles[i - 1].place.y;
    if (is_new_row) rows = band.move_to(place.y, place.height);
    const bool is_last = i + 1 == tiles.size();
    const bool is_changed =
        (is_last || rows == nullptr) && modified_ns(opened.path) != opened.modified_ns;
    if (rows == nullptr || is_changed) {
      const bool was_checked = options_.check == ImageCheck::kFull || is_changed;
      throw Error(
          ErrorKind::kData,
          cat(tile_name(opened.path, place, *planned.stated_size), ": ",
              is_changed ? "the file has changed while it was cut into tiles" : band.problem()),
          was_checked
              ? "leave the images alone while they are packed, and start afresh with --overwrite"
              : "pack with --check full --overwrite, which quarantines a damaged image before its "
                "first tile");
    }
    MadeRecord made = make_tile(planned, tiles[i], opened, *rows);
    if (i == 0) made.found_as = opened.found_as;
    put(std::move(made));
  }
}

}  // namespace retina
