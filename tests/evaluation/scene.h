// A small scoring problem made by hand: two images and two classes; every test adds what it is
// about.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "shared/coco/instances.h"
#include "shared/coco/results.h"

namespace retina {

struct Scene {
  Instances truth{.images = {{.id = 1, .file_name = "1.jpg", .width = 200, .height = 200},
                             {.id = 2, .file_name = "2.jpg", .width = 200, .height = 200}},
                  .annotations = {},
                  .categories = {{.id = 3, .name = "cat"}, {.id = 7, .name = "dog"}}};
  std::vector<Detection> found{};

  void object(std::int64_t image, std::int64_t category, std::array<double, 4> box,
              bool crowd = false) {
    truth.annotations.push_back({.id = static_cast<std::int64_t>(truth.annotations.size()) + 1,
                                 .image_id = image,
                                 .category_id = category,
                                 .bbox = box,
                                 .area = box[2] * box[3],
                                 .iscrowd = crowd});
  }
  void detect(std::int64_t image, std::int64_t category, std::array<double, 4> box, double score) {
    found.push_back({.image_id = image, .category_id = category, .bbox = box, .score = score});
  }
};

}  // namespace retina
