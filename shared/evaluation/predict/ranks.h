// Work shared by ranks: each takes its part, rank 0 gets all results.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "shared/base/error.h"
#include "shared/comm/communicator.h"

namespace retina {

// Returns every rank_count-th entry, beginning with the rank's own number: neighbours cost about
// the same, so the ranks' shares do too.
template <class T>
std::vector<T> share_of_rank(const std::vector<T>& all, const Communicator& ranks) {
  std::vector<T> share;
  for (auto i = static_cast<std::size_t>(ranks.rank()); i < all.size();
       i += static_cast<std::size_t>(ranks.size())) {
    share.push_back(all[i]);
  }
  return share;
}

// Returns consecutive entries instead, for neighbours that share work.
template <class T>
std::vector<T> run_of_rank(const std::vector<T>& all, const Communicator& ranks) {
  const auto rank = static_cast<std::size_t>(ranks.rank());
  const auto count = static_cast<std::size_t>(ranks.size());
  const auto place = [&](std::size_t number) {
    return all.begin() + static_cast<std::ptrdiff_t>(all.size() * number / count);
  };
  return {place(rank), place(rank + 1)};
}

// Reports that a part of the work is done: ranks that wait for this one see that it makes progress.
void report_progress(Communicator& ranks);

// Returns all ranks' entries on rank 0 in ascending `image_id` order, each image's order kept;
// nothing elsewhere. Collective. For an image on several ranks, entries of lower ranks come first.
// Entries travel as their bytes: all ranks run the same program.
template <class Entry>
std::vector<Entry> gather_by_image(Communicator& ranks, const std::vector<Entry>& entries) {
  static_assert(std::is_trivially_copyable_v<Entry>);
  const std::string bytes(reinterpret_cast<const char*>(entries.data()),
                          entries.size() * sizeof(Entry));
  std::vector<Entry> all;
  for (const std::string& part : ranks.gather(bytes, 0)) {
    RETINA_CHECK(part.size() % sizeof(Entry) == 0, part.size(), " bytes");
    const std::size_t count = part.size() / sizeof(Entry), first = all.size();
    all.resize(first + count);
    if (count > 0) std::memcpy(all.data() + first, part.data(), part.size());
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Entry& a, const Entry& b) { return a.image_id < b.image_id; });
  return all;
}

}  // namespace retina
