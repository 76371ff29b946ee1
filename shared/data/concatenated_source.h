// Several sources as one: the images of each source after those of the previous one, with classes
// of one list.
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
  std::vector<std::size_t> ends_;  // of each part's images in `index_`
  ImageIndex index_;
};

}  // namespace retina
