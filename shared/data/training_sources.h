// Sources that training puts around others: several as one, and damaged images replaced.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "shared/data/sample_source.h"

namespace retina {

struct SourcePart {
  std::unique_ptr<SampleSource> source = {};
  std::vector<int> labels = {};  // its classes' labels in the common list; empty: the same
};

// Concatenates sources so that the result looks like one source with their images in this order:
// ids may come twice, and a slot's record is a place in the whole index. Only `shard` and `place`
// of an entry are those in its own set.
class ConcatenatedSource : public SampleSource {
 public:
  explicit ConcatenatedSource(std::vector<SourcePart> parts);

  const ImageIndex& index() const override { return index_; }
  Sample load(const BatchRequest& request, std::size_t place, JpegDecoder& decoder,
              PixelTarget pixels) const override;

 private:
  std::vector<SourcePart> parts_;
  std::vector<std::size_t> ends_;  // end of each part's images in `index_`
  ImageIndex index_;
};

// Samples of another source, with damaged images replaced by the next intact one: training goes on.
class ReplacingSource : public SampleSource {
 public:
  // Limit of the search for an intact image.
  static constexpr std::size_t kMostTries = 100;

  explicit ReplacingSource(std::unique_ptr<SampleSource> source) : source_(std::move(source)) {}

  const ImageIndex& index() const override { return source_->index(); }

  // Loads a sample; if the source throws kData, that of the next record by index, wrapping around
  // at the end, whose image fits the request's padded shape (of a kStored target: has no more
  // pixels than the damaged one, too) and is intact, with the slot's augmentation, and sets
  // Sample::replaced. The choice depends on the record, the step's shape and the form alone, not on
  // ranks, threads or the other slots. Throws what the source first threw if no such record is
  // among the next kMostTries.
  Sample load(const BatchRequest& request, std::size_t place, JpegDecoder& decoder,
              PixelTarget pixels) const override;

 private:
  std::unique_ptr<SampleSource> source_;
};

}  // namespace retina
