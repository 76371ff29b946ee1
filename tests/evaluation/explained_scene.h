// What explanations are told of: boxes of a Scene's two classes.
#pragma once

#include <array>
#include <cstdint>

#include "evaluate/explain/explanation.h"
#include "tests/evaluation/scene.h"

namespace retina {

// As COCO has it: x, y, width, height, px.
using SceneBox = std::array<double, 4>;

inline constexpr std::int64_t kCat = 3, kDog = 7;
inline constexpr SceneBox kHere{0, 0, 40, 40}, kThere{100, 100, 40, 40};

inline Explanation explain_detections(const Instances& truth, const std::vector<Detection>& found,
                                      const ExplainOptions& options = {}) {
  return explain_detections(BoxGroups(truth, found, options.thread_count), options);
}
inline Explanation explain(const Scene& scene, const ExplainOptions& options = {}) {
  return explain_detections(scene.truth, scene.found, options);
}
// Of each kind: classification, localisation, both, duplicate, background, missed.
inline std::array<std::int64_t, kFaultKindCount> counts_of(const Explanation& explanation) {
  std::array<std::int64_t, kFaultKindCount> counts{};
  for (std::size_t i = 0; i < counts.size(); ++i) {
    counts[i] = explanation.error_split.kinds[i].count;
  }
  return counts;
}

}  // namespace retina
