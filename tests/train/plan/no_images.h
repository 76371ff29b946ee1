// A training set without images, for tests of what never loads one.
#pragma once

#include <vector>

#include "shared/data/sample_source.h"

namespace retina {

class NoImages : public SampleSource {
 public:
  const ImageIndex& index() const override { return index_; }
  Sample load(const BatchRequest& /*request*/, std::size_t /*place*/, JpegDecoder& /*decoder*/,
              PixelTarget /*pixels*/) const override {
    return {};
  }

 private:
  ImageIndex index_;
};

}  // namespace retina
