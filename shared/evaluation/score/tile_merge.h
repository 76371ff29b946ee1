// One image's detections from all of its tiles: an object where tiles overlap is found in several
// of them, and one that a tile's border cuts is found in parts. As sahi 0.12's postprocess does it
// (NMSPostprocess, GreedyNMMPostprocess, NMMPostprocess with class_agnostic=False).
#pragma once

#include <vector>

#include "shared/base/choices.h"
#include "shared/coco/results.h"

namespace retina {

// Best first, a box that is kept takes those that it matches:
enum class TileMergeKind {
  kNms,        // they go (non-maximum suppression)
  kGreedyNmm,  // it becomes the hull of itself and them (greedy non-maximum merging)
  kNmm,        // ... and of those that they match
};
inline const Choices<TileMergeKind> kTileMergeKinds = {{"nms", TileMergeKind::kNms},
                                                       {"greedy-nmm", TileMergeKind::kGreedyNmm},
                                                       {"nmm", TileMergeKind::kNmm}};

// What two boxes share, as a part of their union or of the smaller one.
enum class TileMatch { kIou, kIos };
inline const Choices<TileMatch> kTileMatches = {{"iou", TileMatch::kIou}, {"ios", TileMatch::kIos}};

// By default as the detections of one image are thinned out. sahi's own default is greedy merging
// by the smaller box, but where scores begin below 0.1, as for AP, it takes these, too: there many
// weak boxes match a good one, and each widens it.
struct TileMerge {
  TileMergeKind kind = TileMergeKind::kNms;
  TileMatch match = TileMatch::kIou;
  double threshold = 0.5;  // boxes of a class match from here on; above 0

  friend bool operator==(const TileMerge&, const TileMerge&) = default;
};

// `found` on one image, in its pixels, without those that are parts of others; best first. The
// score is the kept box's. A box that matches the kept one, but not the hull that this has become
// by then, goes without widening it. Overlaps and areas are f32, as sahi's arrays; that second look
// is f64, as its objects.
//
// The result does not depend on the order of `found`, so that any number of ranks gives the same:
// boxes have a total order, by score, category, then corners x1, y1, x2, y2. sahi's, too, but for
// two things: it lists kept boxes class by class, and what NMM takes widens the hull in the order
// of its input, here in the total order (which sahi has where it gets its input so:
// tests/oracle/tile_merge.py compares them).
//
// About n log n for boxes that lie apart; 100,000 boxes took 0.3 to 0.4 s.
std::vector<Detection> merge_tiles(std::vector<Detection> found, const TileMerge& merge);

// The same for detections of many images, which come in ascending order of their ids and stay so.
std::vector<Detection> merge_tiles_by_image(const std::vector<Detection>& found,
                                            const TileMerge& merge);

}  // namespace retina
