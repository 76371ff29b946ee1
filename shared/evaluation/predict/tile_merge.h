// Merges one image's detections from all of its tiles: an object where tiles overlap is found in
// several of them, and one that a tile's border cuts is found in parts. As sahi 0.12's postprocess
// does it (NMSPostprocess, GreedyNMMPostprocess, NMMPostprocess with class_agnostic=False).
#pragma once

#include <vector>

#include "shared/base/choices.h"
#include "shared/coco/results.h"

namespace retina {

// Rule for the boxes that match a kept box; best first:
enum class TileMergeKind {
  kNms,        // they are dropped (non-maximum suppression)
  kGreedyNmm,  // the box becomes its hull with them (greedy non-maximum merging)
  kNmm,        // ... and with those that they match
};
inline const Choices<TileMergeKind> kTileMergeKinds = {{"nms", TileMergeKind::kNms},
                                                       {"greedy-nmm", TileMergeKind::kGreedyNmm},
                                                       {"nmm", TileMergeKind::kNmm}};

// Measure of the overlap of two boxes: as a part of their union or of the smaller one.
enum class TileMatch { kIou, kIos };
inline const Choices<TileMatch> kTileMatches = {{"iou", TileMatch::kIou}, {"ios", TileMatch::kIos}};

// Options; by default detections are thinned out as those of one image are. sahi's own default is
// greedy merging by the smaller box, but for scores from below 0.1, as for AP, it switches to
// these, too: many weak boxes then match a good one, and each widens it.
struct TileMerge {
  TileMergeKind kind = TileMergeKind::kNms;
  TileMatch match = TileMatch::kIou;
  double threshold = 0.5;  // overlap from which boxes of a class match; above 0

  friend bool operator==(const TileMerge&, const TileMerge&) = default;
};

// Merges `found` on one image, in its pixels, and returns the kept boxes, best first. The score is
// the kept box's. A box that matches the kept one, but not the hull that this has become by then,
// is dropped without widening it. Overlaps and areas are f32, as sahi's arrays; that second check
// is f64, as its objects.
//
// The result does not depend on the order of `found`, so that any number of ranks gives the same:
// boxes have a total order, by score, category, then corners x1, y1, x2, y2. sahi's result is the
// same but for two things: it lists kept boxes class by class, and the boxes that NMM absorbs widen
// the hull in the order of its input, here in the total order (which sahi has if it gets its input
// so: tests/oracle/tile_merge.py compares them).
//
// 100,000 boxes that lie apart take less than a second.
std::vector<Detection> merge_tiles(std::vector<Detection> found, const TileMerge& merge);

// Merges the detections of many images, which come in ascending order of their ids and stay so.
std::vector<Detection> merge_tiles_by_image(const std::vector<Detection>& found,
                                            const TileMerge& merge);

}  // namespace retina
