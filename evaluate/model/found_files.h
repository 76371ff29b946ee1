// The files that --images names, found and looked at by all ranks together, and those that turn out
// not to decode.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "evaluate/options.h"
#include "shared/comm/communicator.h"
#include "shared/data/image_inputs.h"

namespace retina {

struct FoundFiles {
  std::vector<ImageRoot> roots{};
  std::vector<FoundImage> images{};  // by name, ascending
  std::vector<SkippedFile> skipped{};
};

// With --tile an image need not fit into memory.
struct ImageLimits {
  std::uint64_t pixels = kDefaultMaxPixels, file_bytes = kMaxImageFileBytes;
};
ImageLimits limits_of(const EvalOptions& options);

// Rank 0 lists the files, every rank looks at its share of them, all get the whole but for folders
// that were skipped, which rank 0 alone gets. Collective. Throws as list_images() and look_at().
FoundFiles find_files(const EvalOptions& options, Communicator& ranks);

// An image that does not decode, by its place, and why.
using SkippedPlace = std::pair<std::size_t, FileProblem>;
// All ranks' on rank 0, nothing elsewhere. Collective.
std::vector<SkippedPlace> gather_places(const std::vector<SkippedPlace>& own, Communicator& ranks);

}  // namespace retina
