// Checks that a model sees images at the scale that it was trained at.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/image/frame.h"
#include "shared/shard/image_index.h"

namespace retina {

struct ModelScale {
  FrameRule frame = {};
  int tile_px = 0;  // side of the tiles that it was trained on; 0: whole images, or not known
};

// Returns the scale in the `config` of a checkpoint or an inference model, which `path` names; the
// defaults where another program's config has none. Throws kData.
ModelScale model_scale(const std::string& config_json, const std::string& path);

// Returns a warning, or "". `images` are whole ones, detected on `tiles` (sides, px; none: whole).
// It warns of whole images that the model scales down by more than 3 (the image of median longer
// side), and of tiles that are all more than 1.5 times as large or small as those of the training.
std::string scale_doubt(const ModelScale& model, const ImageIndex& images,
                        const std::vector<std::int64_t>& tiles);

}  // namespace retina
