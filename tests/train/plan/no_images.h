// A training set without images, for tests of what never loads one.
#pragma once

#include <vector>

#include "shared/data/sample_source.h"

namespace retina {

class NoImages : public SampleSource {
 public:
  const std::vector<IndexEntry>& index() const override { return index_; }
  Sample load(const BatchRequest& /*request*/, std::size_t /*place*/, JpegDecoder& /*decoder*/,
              PixelTarget /*pixels*/) const override {
    return {};
  }

 private:
  std::vector<IndexEntry> index_;
};

}  // namespace retina
