// Pictures to detect on, by their place: a shard set's or loose ones. Both take the same way into
// the network.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "shared/base/image_folder.h"
#include "shared/coco/category.h"
#include "shared/data/sample_source.h"
#include "shared/image/image.h"
#include "shared/image/jpeg.h"
#include "shared/shard/shard_set.h"

namespace retina {

class PictureSource {
 public:
  virtual ~PictureSource() = default;

  // Ids and sizes of all pictures: plans are made from these alone.
  virtual const std::vector<IndexEntry>& index() const = 0;
  // In label order: detections get their ids.
  virtual const Categories& categories() const = 0;
  // Decodes picture `place` into `out`, whose storage is reused: of the index's size. A problem
  // when it must be left out. Thread-safe; `decoder` is the calling thread's.
  virtual std::optional<FileProblem> decode(std::size_t place, JpegDecoder& decoder,
                                            Image& out) const = 0;
};

// None is ever left out: coco-pack has checked them all, so a damaged one throws kData.
class ShardPictures : public PictureSource {
 public:
  // `shards` must outlive this.
  explicit ShardPictures(const ShardSet& shards) : shards_(shards) {}

  const std::vector<IndexEntry>& index() const override { return shards_.index(); }
  const Categories& categories() const override { return shards_.manifest().categories; }
  std::optional<FileProblem> decode(std::size_t place, JpegDecoder& decoder,
                                    Image& out) const override;

 private:
  const ShardSet& shards_;
};

// Samples without boxes. One whose picture is left out says so and has no pixels.
class PictureSamples : public SampleSource {
 public:
  // `pictures` must outlive this.
  PictureSamples(const PictureSource& pictures, const Normalisation& normalisation)
      : pictures_(pictures), normalisation_(normalisation) {}

  const std::vector<IndexEntry>& index() const override { return pictures_.index(); }
  Sample load(const BatchRequest& request, std::size_t place, JpegDecoder& decoder,
              PixelTarget pixels) const override;

 private:
  const PictureSource& pictures_;
  Normalisation normalisation_;
};

}  // namespace retina
