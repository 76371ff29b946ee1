// What the ranks found on their shares of the images, put together on rank 0.
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

// All ranks' entries on rank 0 in ascending `image_id` order, each image's order kept; nothing
// elsewhere. Collective. No image may be on two ranks. Entries travel as their bytes: all ranks
// run the same program.
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
