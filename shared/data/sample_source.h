// Sources of samples: records of a shard set, image files (image_inputs.h), synthetic images.
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

  // Returns ids, sizes and box counts of all images: plans are made from these alone.
  virtual const ImageIndex& index() const = 0;

  // Returns true if neighbours in the index share work, so that loading consecutive ones is
  // cheaper.
  virtual bool shares_work() const { return false; }

  // Loads the image of request.slots[place] to `pixels`, which need not be initialised, and returns
  // its sample. Writes all of the sample's width_px x height_px at the upper left of each plane of
  // a kNormalised target, everything of a kStored one; the caller zeroes the rest, and everything
  // if there is a problem. `decoder` is the calling thread's. Thread-safe.
  virtual Sample load(const BatchRequest& request, std::size_t place, JpegDecoder& decoder,
                      PixelTarget pixels) const = 0;
};

// Reads one image by rows, forward only, to cut tiles from it (tiled_source.h). A fault is returned
// as a problem; nothing more comes after one.
class ImageRows {
 public:
  virtual ~ImageRows() = default;
  // Reads the next `count` rows to `out`, whose storage is reused, or skips them. Callers ask for
  // no more rows than there are.
  virtual std::optional<FileProblem> read(int count, Image& out) = 0;
  virtual std::optional<FileProblem> skip(int count) = 0;
};

// A source whose images can be read by rows.
class RowSource : public SampleSource {
 public:
  // Opens image `place` of the index at its first row. Throws as load() does; thread-safe.
  virtual std::unique_ptr<ImageRows> open_rows(std::size_t place) const = 0;

  // Return the size of the whole image, and decode it; if it is too large for that, a smaller copy
  // of whole_size().
  virtual ImageSize whole_size(std::size_t place) const = 0;
  virtual std::optional<FileProblem> decode_whole(std::size_t place, JpegDecoder& decoder,
                                                  Image& out) const = 0;

  virtual const Normalisation& normalisation() const = 0;
};

// Returns the bytes of an image in a batch of kStored.
std::size_t stored_bytes(const IndexEntry& entry);

// Returns the sample of the request's slot `place` for an image of `size`, with its size after the
// resize: the first step of every image into a batch.
Sample sized_sample(const BatchRequest& request, std::size_t place, const ImageSize& size);
// Writes the sample's pixels, the second step: mirror -> resize or the slot's warp -> normalise, or
// as they are.
void put_pixels(const Image& image, const BatchRequest& request, const Sample& sample,
                const Normalisation& normalisation, PixelTarget pixels);

// Loads records: decode -> mirror -> resize or warp -> normalise; boxes follow the pixels.
class ShardSource : public RowSource {
 public:
  // Treatment of crowds (COCO's iscrowd): left out, as torchvision does, or boxes like others.
  enum class Crowds { kLeftOut, kBoxes };
  // Keeps a reference to `shards`, which must outlive this.
  explicit ShardSource(const ShardSet& shards, const Normalisation& normalisation = {},
                       Crowds crowds = Crowds::kLeftOut)
      : shards_(shards), normalisation_(normalisation), crowds_(crowds) {}

  const ImageIndex& index() const override { return shards_.index(); }
  // Loads a record. Throws kData naming shard and record for a damaged one.
  Sample load(const BatchRequest& request, std::size_t place, JpegDecoder& decoder,
              PixelTarget pixels) const override;

  // Decodes the whole image of a record: coco-pack has not let it grow beyond memory.
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

// Makes noise with random boxes, or a random class, in the shapes of COCO's photographs: speed
// without data. Every image is a pure function of (seed, place).
class SyntheticSource : public SampleSource {
 public:
  // Limit of the sides, from 1. A quarter of the images are upright: their sides are exchanged.
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
  std::vector<std::uint8_t> bytes_;  // the same noise as colours
};

}  // namespace retina
