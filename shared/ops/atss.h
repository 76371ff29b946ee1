// Assignment of boxes to anchors by adaptive training sample selection (Zhang et al. 2020,
// "Bridging the gap between anchor-based and anchor-free detection", algorithm 1). matcher.h has
// the other rule.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "shared/anchor/anchor.h"  // IWYU pragma: export, PixelSize
#include "shared/ops/formulas.h"   // IWYU pragma: export, kBackground

namespace retina {

// For each image and anchor the index of the anchor's box in `boxes`, or kBackground; none is
// ignored. Of each box:
//   candidates  from every level all anchors of the 9 cells whose centres are nearest (L2) to the
//               box's, as the authors' code has it: its k = 9 is multiplied by the anchors of a
//               cell. Of cells at the same distance, the first of the level.
//   threshold   mean + standard deviation (unbiased) of the candidates' IoUs, computed in f64
//   positive    a candidate of at least this IoU whose cell's centre is more than 0.01 px inside
//               the box (the authors' code and MMDetection's)
// An anchor that is positive for several boxes has that of the highest IoU, of equal ones the
// first. A box may have no anchor.
//   anchors [A, 4] xyxy px, of grid_anchors (anchor.h), the same for all images; a cell's centre
//           is that of its first anchor
//   grids   up to 8 levels, cells of each; all have the same number of anchors, A / all cells,
//           at most kAnchorsPerCell
//   boxes [G, 4], both f32 or both f64; offsets [N + 1] i64 as for match_anchors (matcher.h)
//   returns [N, A] i64
// Memory O(N A + G): no [G, A] matrix; time O(A) of writing plus O(G). Equals the rule by the whole
// matrix (tests/ops). No gradient; deterministic, the same on CPUs and GPUs; on a GPU nothing waits
// for it.
at::Tensor atss_match_anchors(const at::Tensor& anchors, const std::vector<PixelSize>& grids,
                              const at::Tensor& boxes, const at::Tensor& offsets);

}  // namespace retina
