// `coco-pack --inspect`: what a shard set holds, as text; one record, as text and as an image.
#pragma once

#include <cstdint>
#include <string>

#include "preprocess/options.h"
#include "shared/shard/shard_set.h"

namespace retina {

// Counts, shards, categories, image sizes.
std::string describe_set(const ShardSet& set);

// Where the image is in the index: the one of options.image_id, or whose file name is
// options.image_file or ends with a slash and it. Throws kNoInput, with the reason when it is in
// quarantine; kUsage when several images end so.
std::size_t find_image(const ShardSet& set, const InspectOptions& options);

// The record's annotations as a table.
std::string describe_record(const ShardSet& set, std::size_t index_place);

// Writes the image with its boxes and class names; crowds dashed.
void draw_record(const ShardSet& set, std::size_t index_place, const std::string& path);

// All of the above as the options ask; returns the text.
std::string inspect(const InspectOptions& options);

}  // namespace retina
