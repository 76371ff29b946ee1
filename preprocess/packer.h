// Packs images and annotations into a published shard set: coco-pack's work.
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
  bool was_finished = false;          // an earlier run had completed the set
  std::size_t reused_shards = 0;      // shards that an interrupted run had made
  std::int64_t far_from_anchors = 0;  // trainable boxes too small or thin for the default anchors
  std::string tile_advice{};          // text of tile_advice(), data_facts.h
  std::string lost_in_tiles{};        // text of lost_in_tiles(), data_facts.h
  std::int64_t degenerate_annotations = 0;      // boxes that training ignores
  std::vector<std::string> first_degenerate{};  // their names, as Tally's
};

// Packs the set, going on from what an interrupted run left; does nothing if it is complete. The
// same input and options give the same bytes, whatever the number of threads and interruptions.
// Throws kNoInput, kData (bad annotations, no usable image, the first bad image with on_bad_image
// "fail"), kConfig (another configuration or another coco-pack in the folder), kCannotCreate, kIo
// (disk full), kInterrupted (stop signal).
PackResult pack(const PackOptions& options);

}  // namespace retina
