// What is trained on, as the trainer sees it: samples, classes and an identity.
#pragma once

#include <string>
#include <vector>

#include "shared/data/sample_source.h"
#include "shared/shard/manifest.h"

namespace retina {

struct TrainingSet {
  const SampleSource& source;
  Categories categories = {};
  std::int64_t ignored_boxes = 0;  // without an area to train on, as the packer counted them
  std::string fingerprint = {};    // of the manifest: a run continues with the same data only

  int class_count() const { return static_cast<int>(categories.size()); }
};

}  // namespace retina
