// Checks how well anchors fit a set's boxes at retina-train's default image size, and proposes
// better --anchor-sizes. Sizes only: where on the grid a box lies is ignored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "shared/anchor/anchor.h"

namespace retina {

// retina-train's default sizes.
inline constexpr int kDefaultMinSidePx = 800, kDefaultMaxSidePx = 1333;
inline constexpr double kBackgroundIou = 0.4;  // an anchor below it is background (Lin et al. 2017)
const std::vector<double>& default_anchor_sizes();
// Returns the sizes as the option takes them: "32,64,128,256,512".
std::string anchor_sizes_text(const std::vector<double>& sizes);

// Size of a box to train on.
struct BoxSize {
  float width_px = 0, height_px = 0;  // in pixels of the network's input
  std::int64_t count = 1;
};
std::int64_t count_boxes(const std::vector<BoxSize>& boxes);

// Counts of boxes that no anchor overlaps by kBackgroundIou.
struct Uncovered {
  std::int64_t small = 0, large = 0;  // smaller or larger than the anchors of their shape
  std::int64_t thin = 0;              // no --anchor-sizes covers their shape

  std::int64_t all() const { return small + large + thin; }
};

enum class Fit { kCovered, kSmall, kLarge, kThin };
Fit fit_of(const BoxSize& box, const AnchorCoverage& coverage);

Uncovered count_uncovered(const std::vector<BoxSize>& boxes,
                          const std::vector<double>& anchor_sizes);

struct AnchorProposal {
  std::vector<double> sizes{};
  Uncovered uncovered{};
};

// Returns the ladder of anchor sizes that leaves the fewest boxes uncovered. Candidates begin at
// 16, 24, 32, 48 or 64 px (a smaller anchor than twice the stride of P3, 8 px, would miss boxes
// between two cells) and grow from level to level by 1.5, 2 or 2.5. Among those within 0.2 % of the
// boxes of the best, the nearest to the default wins. `thread_count` does not change the result.
AnchorProposal propose_anchors(const std::vector<BoxSize>& boxes, int thread_count);

}  // namespace retina
