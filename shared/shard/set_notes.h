// What is known of packed sets and makes training or its metrics mean less than they seem to: one
// list of sentences, made from manifest and index, that coco-pack, retina-train and retina-eval
// print as warnings and pages begin with. Empty for most sets.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "shared/shard/shard_set.h"

namespace retina {

// Of one set: what its annotations made coco-pack say, and that it has no box.
std::vector<std::string> set_notes(const Manifest& manifest);

// Images of `other` that are in `train`, too, byte for byte; aside from empty tiles, of which many
// look the same.
struct SharedImages {
  std::set<std::int64_t> ids{};
  // "2 of 16 images are also trained on, byte for byte (first: a.jpg (image 1) is b.jpg (image 4)
  // of shards/train)"; empty where there are none.
  std::string text{};
};
SharedImages shared_images(std::span<const ShardSet> train, const ShardSet& other);

// Of a set to validate on beside the ones to train on: images that they share, and classes that
// have boxes (or images) on one side alone.
std::vector<std::string> validation_notes(std::span<const ShardSet> train,
                                          const ShardSet& validation);

}  // namespace retina
