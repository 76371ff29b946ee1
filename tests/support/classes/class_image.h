// One image of the classification demo: an object of one of ten classes among what disturbs, as a
// pure function of seed, number and size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/image/image.h"

namespace retina::classes {

inline constexpr int kImageClassCount = 10;

// In the order of their labels.
const std::vector<std::string>& image_class_names();

struct ClassImage {
  Image image{};     // side_px x side_px
  int label = 0;     // 0..kImageClassCount-1
  int quality = 90;  // JPEG
};

// The largest object decides the class, by its outline alone; its colour only hints at it. Before
// and behind it are smaller ones of any class. Labels take turns, so all classes are equally
// frequent. The same image in another size shows the same objects.
ClassImage make_class_image(std::uint64_t seed, std::uint32_t number, int side_px);

}  // namespace retina::classes
