// Notes on packed sets that make training or its metrics mean less than they seem to: one list of
// sentences, made from manifest and index, that coco-pack, retina-train and retina-eval print as
// warnings and pages begin with. Empty for most sets.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "shared/shard/shard_set.h"

namespace retina {

// Returns the notes on one set: coco-pack's on its annotations, and that it has no box.
std::vector<std::string> set_notes(const Manifest& manifest);

// Images of `other` that are in `train`, too, byte for byte; except for empty tiles, many of which
// look the same.
struct SharedImages {
  std::set<std::int64_t> ids{};
  // Text such as "2 of 16 images are also trained on, byte for byte (first: a.jpg (image 1) is
  // b.jpg (image 4) of shards/train)"; empty if there are none.
  std::string text{};
};
SharedImages shared_images(std::span<const ShardSet> train, const ShardSet& other);

// Returns the notes on a validation set beside the training sets: images that they share, and
// classes that have boxes (or images) on one side alone.
std::vector<std::string> validation_notes(std::span<const ShardSet> train,
                                          const ShardSet& validation);

}  // namespace retina
