// Whether a model sees images at the scale that it was trained at.
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

// Of the `config` of a checkpoint or an inference model, which `path` names; another program's may
// have none: then the defaults. Throws kData.
ModelScale model_scale(const std::string& config_json, const std::string& path);

// A line to warn with, or "". `images`: whole ones, detected on `tiles` (sides, px; none: whole).
// Doubtful are whole images that the model scales down by more than 3 (the median by the longer
// side), and tiles that are all more than 1.5 times as large or small as those of the training.
std::string scale_doubt(const ModelScale& model, const ImageIndex& images,
                        const std::vector<std::int64_t>& tiles);

}  // namespace retina
