// Writes the demo's data set in COCO's layout: annotations/instances_{train,val}2017.json and
// images/{train,val}2017/.
#pragma once

#include <cstdint>
#include <string>

namespace retina::scenes {

struct DataSetOptions {
  std::string output{};
  std::uint64_t seed = 1;
  int train_count = 320, validation_count = 80;  // images, damaged ones included
  int classes = 5;                               // 1..80
  int threads = 0;                               // 0: one a core
  int side_px = 0;                               // of large, square images; 0: small scenes
  int object_px = 12;                            // of their objects
  bool intact = false;  // without the few files that are cut, empty, no JPEG or of a wrong size
};

// Returns false when `output` already holds this very set. The annotations are written last.
// Throws kUsage, kCannotCreate, kIo.
bool write_data_set(const DataSetOptions& options);

}  // namespace retina::scenes
