// One image of the demo's data set with its annotations, as a pure function of seed, number and
// classes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/coco/instances.h"
#include "shared/image/image.h"
#include "tests/support/scenes/shape.h"

namespace retina::scenes {

struct Scene {
  Image image{};
  int quality = 90;  // JPEG
  // Boxes of the visible parts; `id` and `image_id` are left to the caller.
  std::vector<Annotation> annotations{};
};

// About 240 x 180 pixels with up to 7 objects that may overlap; one in 20 has no object, one in 12
// a crowd of small ones under a single crowd annotation.
Scene make_scene(std::uint64_t seed, std::uint32_t number, std::span<const ShapeClass> classes);

// An aerial picture of `side_px` squared: many objects of about `object_px` alike over an uneven
// ground, none of them in a crowd.
Scene make_large_scene(std::uint64_t seed, std::uint32_t number,
                       std::span<const ShapeClass> classes, int side_px, int object_px);

}  // namespace retina::scenes
