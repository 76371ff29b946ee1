// The images of a set for a report page: small JPEGs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "shared/shard/shard_set.h"

namespace retina {

struct ImageFileOptions {
  int max_side_px = 480;                   // larger ones are made smaller
  std::function<void()> on_image = [] {};  // called after each
};

// JPEG files by image id, without anything drawn on them. Ids that the set lacks get empty ones.
// Throws kData when a record is damaged.
std::map<std::int64_t, std::string> drawn_files(const ShardSet& shards,
                                                const std::vector<std::int64_t>& image_ids,
                                                const ImageFileOptions& options);

}  // namespace retina
