// Merges the detections of a results file as those of tiles, for tests/oracle/tile_merge.py and
// the server's tests:
//
//   merge_results IN.json OUT.json nms|greedy-nmm|nmm iou|ios THRESHOLD
#include <algorithm>
#include <cstdlib>

#include "shared/evaluation/predict/tile_merge.h"

int main(int argc, char** argv) {
  if (argc != 6) return 64;
  std::vector<retina::Detection> found = retina::read_results(argv[1]);
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.image_id < b.image_id; });
  const retina::TileMerge merge{.kind = retina::value_of(retina::kTileMergeKinds, argv[3]).value(),
                                .match = retina::value_of(retina::kTileMatches, argv[4]).value(),
                                .threshold = std::atof(argv[5])};
  retina::write_results(argv[2], retina::merge_tiles_by_image(found, merge));
}
