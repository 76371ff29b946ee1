#include "shared/data/tiled_source.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/memory.h"

namespace retina {
namespace {

constexpr int kBandRows = 64;
constexpr std::size_t kManyBytes = std::size_t{8} << 20;

// Limit of the images in progress: for small images, several of which are in one batch.
constexpr std::size_t kMostWindows = 64;

bool is_all_of(const TileRect& rect, const IndexEntry& image) {
  return rect.width == image.width && rect.height == image.height;
}

}  // namespace

// The rows of one image that are in memory, in bands of kBandRows.
class TiledSource::Window {
 public:
  // Takes the image's tiles in their order in the index.
  Window(const RowSource& images, std::size_t image, std::vector<TileRect> tiles)
      : images_(images),
        image_(image),
        height_(images.index()[image].height),
        band_bytes_(std::size_t{3} * static_cast<std::size_t>(images.index()[image].width) *
                    kBandRows),
        tiles_(std::move(tiles)),
        is_done_(tiles_.size()),
        first_row_from_(tiles_.size() + 1, height_),
        begin_(tiles_.size()) {
    for (std::size_t i = tiles_.size(); i-- > 0;) {
      first_row_from_[i] = std::min(first_row_from_[i + 1], tiles_[i].y);
    }
  }

  std::optional<FileProblem> cut_out(std::size_t tile, Image& out) {
    Bands bands;
    std::optional<FileProblem> problem;
    {
      const std::lock_guard lock(mutex_);
      problem = take_bands(tile, bands);
    }
    if (!problem) copy(tiles_[tile], bands, out);
    const std::lock_guard lock(mutex_);
    is_done_[tile] = true;
    drop_done();
    return problem;
  }

  // Returns true if no later tile of the image is left.
  bool is_finished() {
    const std::lock_guard lock(mutex_);
    return first_undone() == tiles_.size();
  }

 private:
  using Band = std::shared_ptr<const Image>;
  using Bands = std::map<int, Band>;  // by number

  static int band_of(int row) { return row / kBandRows; }

  // Adds the bands of the tile's rows to `taken`. Called with the lock held.
  std::optional<FileProblem> take_bands(std::size_t tile, Bands& taken) {
    const TileRect& rect = tiles_[tile];
    begin_ = std::min(begin_, tile);
    const int first = band_of(rect.y), last = band_of(rect.y + rect.height - 1);
    if (!rows_ || (first < next_band_ && !bands_.contains(first))) open();
    // Rows that no later tile shows are skipped.
    const int wanted = std::min(first, band_of(first_row_from_[first_undone()]));
    if (!problem_ && bands_.empty() && next_band_ < wanted) {
      problem_ = rows_->skip((wanted - next_band_) * kBandRows);
      next_band_ = wanted;
    }
    // Without this the allocator's own memory grows by the row of tiles.
    if (next_band_ <= last && band_bytes_ * bands_.size() > kManyBytes) release_freed_memory();
    while (!problem_ && next_band_ <= last) {
      auto band = std::make_shared<Image>();
      problem_ = rows_->read(std::min(kBandRows, height_ - next_band_ * kBandRows), *band);
      if (!problem_) bands_.emplace(next_band_++, std::move(band));
    }
    for (int band = first; band <= last; ++band) {
      const auto found = bands_.find(band);
      if (found == bands_.end()) return problem_;
      taken.insert(*found);
    }
    return std::nullopt;
  }

  void open() {
    rows_ = images_.open_rows(image_);
    bands_.clear();
    next_band_ = 0;
    problem_.reset();
    const auto lower = [](const TileRect& a, const TileRect& b) { return a.height < b.height; };
    const int most = std::max_element(tiles_.begin(), tiles_.end(), lower)->height;
    const IndexEntry image = images_.index()[image_];
    const std::string reason = problem_of_row({image.width, image.height}, most);
    if (!reason.empty()) problem_ = FileProblem{.kind = "too-large", .reason = reason};
  }

  static void copy(const TileRect& rect, const Bands& bands, Image& out) {
    out.width = rect.width;
    out.height = rect.height;
    out.rgb.resize(std::size_t{3} * static_cast<std::size_t>(rect.width) *
                   static_cast<std::size_t>(rect.height));
    for (int y = 0; y < rect.height; ++y) {
      const int row = rect.y + y;
      const Image& band = *bands.at(band_of(row));
      std::copy_n(band.pixel(rect.x, row % kBandRows), std::size_t{3} * rect.width,
                  out.pixel(0, y));
    }
  }

  // Returns the first tile that is not done, counted from the first one requested.
  std::size_t first_undone() const {
    std::size_t tile = begin_;
    while (tile < tiles_.size() && is_done_[tile]) ++tile;
    return tile;
  }

  void drop_done() {
    bands_.erase(bands_.begin(), bands_.lower_bound(band_of(first_row_from_[first_undone()])));
  }

  const RowSource& images_;
  const std::size_t image_;
  const int height_;
  const std::size_t band_bytes_;
  const std::vector<TileRect> tiles_;
  std::vector<bool> is_done_;
  std::vector<int> first_row_from_;  // the uppermost row of a tile and all after it
  std::size_t begin_;                // the first tile requested
  std::mutex mutex_;
  std::unique_ptr<ImageRows> rows_{};
  int next_band_ = 0;  // the band that rows_ gives next
  Bands bands_{};
  std::optional<FileProblem> problem_{};
};

TiledSource::TiledSource(const RowSource& images, const TilingOptions& options) : images_(images) {
  RETINA_CHECK(!options.sides_px.empty());
  for (std::size_t image = 0; image < images.index().size(); ++image) {
    first_of_.push_back(index_.size());
    add_image(image, options);
  }
  first_of_.push_back(index_.size());
}

TiledSource::~TiledSource() = default;

void TiledSource::add_image(std::size_t image, const TilingOptions& options) {
  const IndexEntry entry = images_.index()[image];
  RETINA_CHECK(!entry.tile, "tiles of tiles");
  std::vector<TileRect> tiles;
  for (const int side_px : options.sides_px) {
    const auto more =
        tiles_of({entry.width, entry.height}, {.side_px = side_px, .overlap = options.overlap});
    tiles.insert(tiles.end(), more.begin(), more.end());
  }
  // By lower edges, the order in which decoding from top to bottom completes tiles. Grids of
  // several sides may share tiles.
  const auto order = [](const TileRect& one) {
    return std::tuple(one.y + one.height, one.y, one.x, one.width);
  };
  std::sort(tiles.begin(), tiles.end(),
            [&](const TileRect& a, const TileRect& b) { return order(a) < order(b); });
  tiles.erase(std::unique(tiles.begin(), tiles.end()), tiles.end());
  const auto add = [&](const Cut& cut, const ImageSize& size) {
    cuts_.push_back(cut);
    IndexEntry added = entry;
    added.width = size.width;
    added.height = size.height;
    added.box_count = 0;
    added.labels = {};
    added.tile = TilePlace{
        .x = cut.rect.x, .y = cut.rect.y, .image_width = entry.width, .image_height = entry.height};
    index_.push_back(added);
  };
  // A tile that is the whole image makes a further copy unnecessary.
  const bool has_whole = std::any_of(tiles.begin(), tiles.end(),
                                     [&](const TileRect& one) { return is_all_of(one, entry); });
  if (options.with_whole && !has_whole) {
    add({.image = image, .rect = {.width = entry.width, .height = entry.height}, .is_whole = true},
        images_.whole_size(image));
  }
  for (const TileRect& rect : tiles) {
    add({.image = image, .rect = rect}, {.width = rect.width, .height = rect.height});
  }
}

std::shared_ptr<TiledSource::Window> TiledSource::window_of(std::size_t image) const {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Window>& window = windows_[image];
  if (!window) {
    std::vector<TileRect> tiles;
    for (std::size_t place = first_of_[image]; place < first_of_[image + 1]; ++place) {
      if (!cuts_[place].is_whole) tiles.push_back(cuts_[place].rect);
    }
    window = std::make_shared<Window>(images_, image, std::move(tiles));
  }
  const std::shared_ptr<Window> kept = window;
  if (windows_.size() > kMostWindows) {
    windows_.erase(windows_.begin()->first == image ? std::next(windows_.begin())
                                                    : windows_.begin());
  }
  return kept;
}

std::optional<FileProblem> TiledSource::cut_out(std::size_t place, Image& out) const {
  const std::size_t image = cuts_[place].image;
  const std::size_t first = first_of_[image] + (cuts_[first_of_[image]].is_whole ? 1 : 0);
  const std::shared_ptr<Window> window = window_of(image);
  std::optional<FileProblem> problem = window->cut_out(place - first, out);
  if (window->is_finished()) {
    const std::lock_guard lock(mutex_);
    windows_.erase(image);
  }
  return problem;
}

Sample TiledSource::load(const BatchRequest& request, std::size_t place, JpegDecoder& decoder,
                         PixelTarget pixels) const {
  const std::size_t record = request.slots[place].record;
  RETINA_CHECK(record < index_.size(), "tile ", record, " of ", index_.size());
  const IndexEntry entry = index_[record];
  const Cut& cut = cuts_[record];
  Sample sample = sized_sample(request, place, {.width = entry.width, .height = entry.height});
  sample.image_id = entry.image_id;
  sample.file_name = entry.file_name;
  sample.tile = cut.rect;
  Image image;
  sample.problem =
      cut.is_whole ? images_.decode_whole(cut.image, decoder, image) : cut_out(record, image);
  if (!sample.problem) put_pixels(image, request, sample, images_.normalisation(), pixels);
  return sample;
}

}  // namespace retina
