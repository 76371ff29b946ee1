// Images to detect on, by their place: a shard set's or loose ones. Both take the same way into
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

class ImageSource {
 public:
  virtual ~ImageSource() = default;

  // Ids and sizes of all images: plans are made from these alone.
  virtual const std::vector<IndexEntry>& index() const = 0;
  // In label order: detections get their ids.
  virtual const Categories& categories() const = 0;
  // Decodes image `place` into `out`, whose storage is reused: of the index's size. A problem
  // when it must be left out. Thread-safe; `decoder` is the calling thread's.
  virtual std::optional<FileProblem> decode(std::size_t place, JpegDecoder& decoder,
                                            Image& out) const = 0;
};

// None is ever left out: coco-pack has checked them all, so a damaged one throws kData.
class ShardImages : public ImageSource {
 public:
  // `shards` must outlive this.
  explicit ShardImages(const ShardSet& shards) : shards_(shards) {}

  const std::vector<IndexEntry>& index() const override { return shards_.index(); }
  const Categories& categories() const override { return shards_.manifest().categories; }
  std::optional<FileProblem> decode(std::size_t place, JpegDecoder& decoder,
                                    Image& out) const override;

 private:
  const ShardSet& shards_;
};

// Samples without boxes. One whose image is left out says so and has no pixels.
class ImageSamples : public SampleSource {
 public:
  // `images` must outlive this.
  ImageSamples(const ImageSource& images, const Normalisation& normalisation)
      : images_(images), normalisation_(normalisation) {}

  const std::vector<IndexEntry>& index() const override { return images_.index(); }
  Sample load(const BatchRequest& request, std::size_t place, JpegDecoder& decoder,
              PixelTarget pixels) const override;

 private:
  const ImageSource& images_;
  Normalisation normalisation_;
};

}  // namespace retina
