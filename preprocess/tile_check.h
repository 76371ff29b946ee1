// Do the tiles of a set belong together? A part of --verify, once every record has been found
// whole.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "shared/image/resize.h"
#include "shared/shard/record.h"
#include "shared/shard/tile.h"

namespace retina {

class TileCheck {
 public:
  explicit TileCheck(const TileRule& rule) : rule_(rule) {}

  void add(const Record& record);

  // A line for each image whose tiles disagree about its size, lie beside the grid, are there
  // twice or, where none may be left out, missing; or of which not just the first one has the
  // whole image's boxes.
  std::vector<std::string> problems() const;

 private:
  struct TiledImage {
    std::string name{};
    ImageSize size{};
    std::set<std::pair<int, int>> corners{};  // x, y
    bool sizes_agree = true, is_on_grid = true, has_twins = false;
    std::int64_t whole_count = 0;
    bool first_has_whole = false;
  };
  std::string problem_of(const TiledImage& image) const;

  TileRule rule_;
  std::map<std::int64_t, TiledImage> images_{};
};

}  // namespace retina
