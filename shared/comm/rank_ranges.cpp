#include "shared/comm/rank_ranges.h"

#include "shared/base/cat.h"

namespace retina {

std::string rank_ranges(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t begin = 0, end = 0; begin < ranks.size(); begin = end) {
    const auto in_a_row = [&] {
      return ranks[end] == ranks[begin] + static_cast<int>(end - begin);
    };
    while (end < ranks.size() && in_a_row()) ++end;
    if (end - begin == 2) end = begin + 1;
    text += cat(begin == 0 ? "" : ", ", ranks[begin]);
    if (end - begin > 2) text += cat("-", ranks[end - 1]);
  }
  return text;
}

}  // namespace retina
