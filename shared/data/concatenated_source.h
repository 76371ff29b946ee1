// Several sources as one: their images one source after the other, with classes of one list.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "shared/data/sample_source.h"

namespace retina {

struct SourcePart {
  std::unique_ptr<SampleSource> source = {};
  std::vector<int> labels = {};  // of its classes in the common list; empty: they are the same
};

// What it gives does not tell several sources from one that has their images in this order: ids may
// come twice, and a slot's record is a place in the whole index. Of an entry only `shard` and
// `place` are those in its own set.
class ConcatenatedSource : public SampleSource {
 public:
  explicit ConcatenatedSource(std::vector<SourcePart> parts);

  const ImageIndex& index() const override { return index_; }
  Sample load(const BatchRequest& request, std::size_t place, JpegDecoder& decoder,
              PixelTarget pixels) const override;

 private:
  std::vector<SourcePart> parts_;
  std::vector<std::size_t> ends_;  // of each part's images in `index_`
  ImageIndex index_;
};

}  // namespace retina
