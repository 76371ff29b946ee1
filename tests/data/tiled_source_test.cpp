#include "shared/data/tiled_source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <random>

#include "shared/base/file.h"
#include "shared/data/evaluation_plan.h"
#include "shared/data/image_inputs.h"
#include "shared/data/loader.h"
#include "tests/support/images/images.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

// Images in memory that count what is read of them.
class CountedImages : public RowSource {
 public:
  struct Counts {
    std::atomic<int> opened = 0;
    std::atomic<std::int64_t> rows = 0;
  };

  explicit CountedImages(std::vector<Image> images) : images_(std::move(images)) {
    for (const Image& image : images_) {
      index_.push_back({.image_id = static_cast<std::int64_t>(index_.size()) + 10,
                        .width = image.width,
                        .height = image.height});
    }
  }

  // Of every image, rows from this one on are damaged.
  int first_damaged_row = 1 << 30;
  mutable Counts counts;

  const ImageIndex& index() const override { return index_; }
  const Image& image(std::size_t place) const { return images_[place]; }
  Sample load(const BatchRequest&, std::size_t, JpegDecoder&, PixelTarget) const override {
    return {};
  }
  std::unique_ptr<ImageRows> open_rows(std::size_t place) const override;
  ImageSize whole_size(std::size_t place) const override {
    return {images_[place].width / 2, images_[place].height / 2};
  }
  std::optional<FileProblem> decode_whole(std::size_t place, JpegDecoder&,
                                          Image& out) const override {
    out = shrink(images_[place], whole_size(place));
    return std::nullopt;
  }
  const Normalisation& normalisation() const override { return normalisation_; }

 private:
  std::vector<Image> images_;
  ImageIndex index_{};
  Normalisation normalisation_{};
};

class CountedRows : public ImageRows {
 public:
  CountedRows(const CountedImages& source, const Image& image) : source_(source), image_(image) {
    ++source.counts.opened;
  }
  std::optional<FileProblem> read(int count, Image& out) override {
    out = Image(image_.width, count);
    std::copy(image_.pixel(0, row_), image_.pixel(0, row_ + count), out.rgb.begin());
    return skip(count);
  }
  std::optional<FileProblem> skip(int count) override {
    row_ += count;
    source_.counts.rows += count;
    EXPECT_LE(row_, image_.height);
    if (row_ <= source_.first_damaged_row) return std::nullopt;
    return FileProblem{.kind = "damaged", .reason = "a row"};
  }

 private:
  const CountedImages& source_;
  const Image& image_;
  int row_ = 0;
};

std::unique_ptr<ImageRows> CountedImages::open_rows(std::size_t place) const {
  return std::make_unique<CountedRows>(*this, images_[place]);
}

Image part_of(const Image& image, const TileRect& rect) {
  Image part(rect.width, rect.height);
  for (int y = 0; y < rect.height; ++y) {
    const std::uint8_t* row = image.pixel(rect.x, rect.y + y);
    std::copy(row, row + std::ptrdiff_t{3} * rect.width, part.pixel(0, y));
  }
  return part;
}

struct Loading {
  int threads = 1, images_per_batch = 1;
  std::size_t first_batch = 0, batch_count = 1000;  // of the plan
};

// Loads tiles as an evaluation does and gives each with its pixels to `use`.
template <class Use>
void load_all(const TiledSource& tiles, const Loading& loading, const Use& use) {
  std::vector<BatchRequest> plan =
      plan_evaluation(tiles.index(), {.keeps_sizes = true,
                                      .images_per_batch = loading.images_per_batch,
                                      .keeps_images_apart = tiles.shares_work()});
  std::size_t next = loading.first_batch;
  const std::size_t end = std::min(plan.size(), next + loading.batch_count);
  BatchLoader loader(tiles, {.threads = loading.threads, .form = PixelForm::kStored},
                     [&]() -> std::optional<BatchRequest> {
                       if (next >= end) return std::nullopt;
                       return plan[next++];
                     });
  while (const auto batch = loader.next()) {
    for (std::size_t i = 0; i < batch->samples.size(); ++i) {
      use(batch->samples[i], batch->stored.get() + batch->offsets[i]);
    }
  }
}

TEST(TiledSource, TilesAreListedByTheirLowerEdgesAfterTheWholeImage) {
  const CountedImages images({colourful(250, 170)});
  const TiledSource tiles(images, {.sides_px = {100}, .overlap = .2});
  ASSERT_EQ(tiles.index().size(), 1U + 3 * 2);  // x: 0, 80, 150; y: 0, 70
  EXPECT_EQ(tiles.index()[0].width, 125);       // the smaller copy
  EXPECT_EQ(*tiles.index()[0].tile, (TilePlace{0, 0, 250, 170}));
  EXPECT_EQ(*tiles.index()[3].tile, (TilePlace{150, 0, 250, 170}));
  EXPECT_EQ(*tiles.index()[4].tile, (TilePlace{0, 70, 250, 170}));
  EXPECT_EQ(tiles.index()[6].image_id, 10);
  EXPECT_EQ(TiledSource(images, {.sides_px = {100}, .with_whole = false}).index().size(), 6U);
}

TEST(TiledSource, AnImageThatFitsIntoATileIsThatTileAlone) {
  const CountedImages images({colourful(90, 60)});
  const TiledSource tiles(images, {.sides_px = {100, 200}});
  ASSERT_EQ(tiles.index().size(), 1U);
  EXPECT_EQ(tiles.index()[0].width, 90);
}

TEST(TiledSource, PixelsAreThoseOfTheImageWhateverTheThreadsAndBatches) {
  const CountedImages images({colourful(310, 900), colourful(50, 40), colourful(700, 333)});
  const TiledSource tiles(images, {.sides_px = {100, 160}, .overlap = .3});
  for (const Loading loading : {Loading{}, Loading{.threads = 5, .images_per_batch = 4}}) {
    images.counts.opened = 0;
    std::size_t count = 0;
    load_all(tiles, loading, [&](const Sample& sample, const std::uint8_t* pixels) {
      ++count;
      ASSERT_FALSE(sample.problem);
      const Image& image = images.image(tiles.image_of(sample.slot.record));
      const Image want = sample.tile->width == image.width && sample.tile->height == image.height &&
                                 count > 0 && sample.original_width_px != image.width
                             ? shrink(image, {image.width / 2, image.height / 2})
                             : part_of(image, *sample.tile);
      ASSERT_EQ(sample.original_width_px, want.width);
      EXPECT_TRUE(std::equal(want.rgb.begin(), want.rgb.end(), pixels));
    });
    EXPECT_EQ(count, tiles.index().size());
    // Each is decoded once, or begun again where a tile overtakes those before it.
    EXPECT_GE(images.counts.opened, 3);
    EXPECT_LE(images.counts.opened, loading.threads > 1 ? 6 : 3);
  }
}

TEST(TiledSource, ARunInTheMiddleDecodesUpToItsEnd) {
  const CountedImages images({colourful(400, 2000)});
  const TiledSource tiles(images, {.sides_px = {100}, .overlap = 0, .with_whole = false});
  load_all(tiles, {.threads = 3, .first_batch = 40, .batch_count = 20},
           [&](const Sample& sample, const std::uint8_t* pixels) {
             const Image want = part_of(images.image(0), *sample.tile);
             EXPECT_TRUE(std::equal(want.rgb.begin(), want.rgb.end(), pixels));
           });
  EXPECT_GE(images.counts.rows, 1500);
  EXPECT_LE(images.counts.rows, 1536 * images.counts.opened);  // whole bands
}

TEST(TiledSource, TilesInAnyOrderAreRightToo) {
  const CountedImages images({colourful(300, 700), colourful(500, 200)});
  const TiledSource tiles(images, {.sides_px = {128}, .with_whole = false});
  std::vector<std::size_t> order(tiles.index().size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), std::mt19937(5));
  JpegDecoder decoder;
  for (const std::size_t place : order) {
    const BatchRequest request{.slots = {{.record = place}},
                               .frame = {.min_side_px = 128, .max_side_px = 128},
                               .padded = {128, 128}};
    std::vector<std::uint8_t> pixels(stored_bytes(tiles.index()[place]));
    const Sample sample = tiles.load(request, 0, decoder, pixels.data());
    EXPECT_EQ(part_of(images.image(tiles.image_of(place)), *sample.tile).rgb, pixels);
  }
}

TEST(TiledSource, ADamagedRowIsAProblemOfTheTilesThatShowIt) {
  CountedImages images({colourful(200, 640)});
  images.first_damaged_row = 320;
  const TiledSource tiles(images, {.sides_px = {100}, .overlap = 0, .with_whole = false});
  load_all(tiles, {.threads = 2}, [&](const Sample& sample, const std::uint8_t*) {
    EXPECT_EQ(sample.problem.has_value(), sample.tile->y + sample.tile->height > 320)
        << sample.tile->y;
  });
}

TEST(TiledSource, RowsOfTilesThatTakeMoreThanAGibibyteAreAProblem) {
  const TestFolder folder;
  write_file_atomically(folder / "a.tif", sparse_tiff(999'999, 600, 1'000'000, 16));
  const ImageListing listing = list_images({folder.path()}, folder / "out");
  const ImageFiles files(listing.roots, {{.name = "a.tif", .width = 999'999, .height = 600}}, {});
  const TiledSource tiles(files, {.sides_px = {640}, .with_whole = false});
  load_all(tiles, {.batch_count = 2}, [&](const Sample& sample, const std::uint8_t*) {
    ASSERT_TRUE(sample.problem.has_value());
    EXPECT_EQ(sample.problem->kind, "too-large");
  });
}

// The same through files of every format: rows of a file are what decoding it gives.
TEST(TiledSource, FilesAreCutAsTheyDecode) {
  const TestFolder folder;
  const Image image = colourful(333, 450);
  write_file_atomically(folder / "a.jpg", encode_jpeg(image, 90));
  write_file_atomically(folder / "b.png", encode_png(image));
  write_file_atomically(folder / "c.tif", encode_tiff(image));
  write_file_atomically(folder / "d.webp", encode_webp(image));
  const ImageListing listing = list_images({folder.path()}, folder / "out");
  std::vector<FoundImage> found;
  for (const ImageFile& file : listing.files) {
    found.push_back({.name = file.name, .width = image.width, .height = image.height});
  }
  const ImageFiles files(listing.roots, found, {});
  const TiledSource tiles(files, {.sides_px = {200}});
  EXPECT_EQ(tiles.index().size(), 4U * (1 + 2 * 3));
  JpegDecoder decoder;
  load_all(tiles, {.threads = 2}, [&](const Sample& sample, const std::uint8_t* pixels) {
    ASSERT_FALSE(sample.problem) << sample.problem->reason;
    Image whole;
    ASSERT_FALSE(files.decode(tiles.image_of(sample.slot.record), decoder, whole));
    const Image want = part_of(whole, *sample.tile);
    EXPECT_TRUE(std::equal(want.rgb.begin(), want.rgb.end(), pixels)) << sample.file_name;
  });
}

}  // namespace
}  // namespace retina
