// coco-pack's work: images and annotations in, a published shard set out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "preprocess/options.h"
#include "shared/shard/manifest.h"

namespace retina {

struct PackResult {
  Manifest manifest{};
  bool was_finished = false;          // an earlier run had done it all
  std::size_t reused_shards = 0;      // by continuing an interrupted run
  std::int64_t far_from_anchors = 0;  // trainable boxes too small or thin for the default anchors
  std::string tile_advice{};          // by tile_advice()
  std::string lost_in_tiles{};        // by lost_in_tiles()
  std::int64_t degenerate_annotations = 0;      // boxes that training ignores, by Tally
  std::vector<std::string> first_degenerate{};  // of them
};

// Packs, or continues, or finds that there is nothing to do. Same input and options, same bytes,
// whatever the number of threads and interruptions. Throws kNoInput, kData (bad annotations, no
// usable image, the first bad image with on_bad_image "fail"), kConfig (another configuration or
// another coco-pack in the folder), kCannotCreate, kIo (disk full), kInterrupted (stop signal).
PackResult pack(const PackOptions& options);

}  // namespace retina
