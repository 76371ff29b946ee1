// Where samples come from: records of a shard set, image files (image_inputs.h), synthetic images.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "shared/base/image_folder.h"
#include "shared/base/task.h"
#include "shared/data/batch.h"
#include "shared/image/image.h"
#include "shared/image/jpeg.h"
#include "shared/image/resize.h"
#include "shared/shard/shard_set.h"

namespace retina {

class SampleSource {
 public:
  virtual ~SampleSource() = default;

  // Ids, sizes and box counts of all images: plans are made from these alone.
  virtual const ImageIndex& index() const = 0;

  // Neighbours in the index share work, so that who takes a run of them has less to do.
  virtual bool shares_work() const { return false; }

  // Loads the image of request.slots[place] to `pixels`, which hold anything before, and returns
  // its sample. Of a kNormalised target it writes all of the sample's width_px x height_px at the
  // upper left of each plane, of a kStored one all; the caller zeroes the rest, and all of it where
  // there is a problem. `decoder` is the calling thread's. Thread-safe.
  virtual Sample load(const BatchRequest& request, std::size_t place, JpegDecoder& decoder,
                      PixelTarget pixels) const = 0;
};

// One image by rows, forward only: what tiles are cut from (tiled_source.h). What is wrong with it
// is a problem; after one, nothing more comes.
class ImageRows {
 public:
  virtual ~ImageRows() = default;
  // The next `count` rows to `out`, whose storage is reused, or past them. Nobody asks for more
  // than there are.
  virtual std::optional<FileProblem> read(int count, Image& out) = 0;
  virtual std::optional<FileProblem> skip(int count) = 0;
};

// A source whose images can be read by rows.
class RowSource : public SampleSource {
 public:
  // Image `place` of the index from its first row. Throws as load() does; thread-safe.
  virtual std::unique_ptr<ImageRows> open_rows(std::size_t place) const = 0;

  // All of the image to `out`, where it is too large for that a smaller copy: of whole_size().
  virtual ImageSize whole_size(std::size_t place) const = 0;
  virtual std::optional<FileProblem> decode_whole(std::size_t place, JpegDecoder& decoder,
                                                  Image& out) const = 0;

  virtual const Normalisation& normalisation() const = 0;
};

// Bytes of an image in a batch of kStored.
std::size_t stored_bytes(const IndexEntry& entry);

// The way of every image into a batch: a sample of the request's slot `place` for an image of
// `size`, with the size that the resize gives it ...
Sample sized_sample(const BatchRequest& request, std::size_t place, const ImageSize& size);
// ... and its pixels: mirror -> resize or the slot's warp -> normalise, or as they are.
void put_pixels(const Image& image, const BatchRequest& request, const Sample& sample,
                const Normalisation& normalisation, PixelTarget pixels);

// Records: decode -> mirror -> resize or warp -> normalise; boxes follow the pixels.
class ShardSource : public RowSource {
 public:
  // Boxes of crowds (COCO's iscrowd) are left out, as torchvision does, or are boxes as others.
  enum class Crowds { kLeftOut, kBoxes };
  // `shards` must outlive this.
  explicit ShardSource(const ShardSet& shards, const Normalisation& normalisation = {},
                       Crowds crowds = Crowds::kLeftOut)
      : shards_(shards), normalisation_(normalisation), crowds_(crowds) {}

  const ImageIndex& index() const override { return shards_.index(); }
  // Throws kData naming shard and record for a damaged one.
  Sample load(const BatchRequest& request, std::size_t place, JpegDecoder& decoder,
              PixelTarget pixels) const override;

  // Of a record, which coco-pack has not let grow beyond what can be held: all of it is decoded.
  std::unique_ptr<ImageRows> open_rows(std::size_t place) const override;
  ImageSize whole_size(std::size_t place) const override;
  std::optional<FileProblem> decode_whole(std::size_t place, JpegDecoder& decoder,
                                          Image& out) const override;
  const Normalisation& normalisation() const override { return normalisation_; }

 private:
  const ShardSet& shards_;
  Normalisation normalisation_;
  Crowds crowds_;
};

// Noise with random boxes, or a random class, in the shapes of COCO's photographs: speed without
// data. Every image is a
// pure function of (seed, place).
class SyntheticSource : public SampleSource {
 public:
  // A quarter of the images are upright: their sides are exchanged. Sides: 1..kMostSidePx.
  static constexpr int kMostSidePx = 16384;
  SyntheticSource(std::int64_t image_count, int class_count, std::uint64_t seed,
                  ImageSize size = {640, 480}, Task task = Task::kDetection);

  const ImageIndex& index() const override { return index_; }
  Sample load(const BatchRequest& request, std::size_t place, JpegDecoder& decoder,
              PixelTarget pixels) const override;

 private:
  Task task_;
  int class_count_;
  std::uint64_t seed_;
  ImageIndex index_;
  std::vector<float> noise_;         // standard normal; images are windows of it
  std::vector<std::uint8_t> bytes_;  // the same as colours
};

}  // namespace retina
