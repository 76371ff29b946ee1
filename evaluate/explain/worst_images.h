// The images to look at first, and those whose boxes are written out for drawing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "evaluate/explain/confusion.h"
#include "evaluate/explain/match_outcomes.h"

namespace retina {

// Values that an image is ranked by; 0 if there is nothing of the kind.
struct ImageFaults {
  double ap_lost = 0;          // AP at IoU .5 that its errors cost, to first order
  double confident_wrong = 0;  // score of its most confident false detection, from .05
  double largest_missed = 0;   // area of its largest object without a hit
};

// Ids of images, worst first, equals in ascending id order.
struct WorstImages {
  std::vector<std::int64_t> ap_lost{}, confident_wrong{}, largest_missed{};
};
// Ranks the images. `faults` by image place.
WorstImages worst_images(std::span<const ImageFaults> faults, const BoxGroups& boxes,
                         std::size_t most);

inline constexpr double kShownScore = .05;

// An image with the boxes to draw on it.
struct ShownImage {
  struct Object {
    std::int64_t id = 0, category_id = 0;
    std::array<double, 4> bbox{};
    bool crowd = false, missed = false;  // without a hit
  };
  struct Found {
    std::int64_t category_id = 0;
    std::array<double, 4> bbox{};
    double score = 0;
    TideOutcome outcome{};
  };
  ImageInfo image{};
  double ap_lost = 0;
  std::vector<Object> truths{};
  std::vector<Found> found{};  // those of score >= kShownScore, best first
};

// Returns the ids of at most `most` images: the worst (the first of each list, the second, ...),
// then one a confusion by its count at the chosen threshold, then one a class with its most
// confident hit.
std::vector<std::int64_t> images_worth_drawing(const WorstImages& worst, const Confusion& confusion,
                                               std::size_t most);

// Returns the image at place `image`, with at most `most_boxes` detections.
ShownImage shown_image(std::uint32_t image, std::size_t most_boxes, const MatchOutcomes& outcomes);

}  // namespace retina
