// Samples of another source, where the image after a damaged one takes its place: training goes on.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "shared/data/sample_source.h"

namespace retina {

class ReplacingSource : public SampleSource {
 public:
  // How far it looks for an image that is whole.
  static constexpr std::size_t kMostTries = 100;

  explicit ReplacingSource(std::unique_ptr<SampleSource> source) : source_(std::move(source)) {}

  const ImageIndex& index() const override { return source_->index(); }

  // Where the source throws kData: the next record by index, over its end to its beginning, whose
  // image fits the request's padded shape (of a kStored target: has no more pixels than the
  // damaged one, too) and is whole, with the slot's augmentation, and Sample::replaced says so.
  // That depends on the record, the step's shape and the form alone, not on ranks, threads or the
  // other slots. Throws what the source first threw where no such record is among the next
  // kMostTries.
  Sample load(const BatchRequest& request, std::size_t place, JpegDecoder& decoder,
              PixelTarget pixels) const override;

 private:
  std::unique_ptr<SampleSource> source_;
};

}  // namespace retina
