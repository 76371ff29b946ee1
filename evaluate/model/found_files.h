// Finds the files that --images names, with all ranks sharing the work, and collects those that do
// not decode.
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

// The limits of an image. With --tile it need not fit into memory.
struct ImageLimits {
  std::uint64_t pixels = kDefaultMaxPixels, file_bytes = kMaxImageFileBytes;
};
ImageLimits limits_of(const EvalOptions& options);

// Finds and checks the files: rank 0 lists them, every rank checks its share, and all ranks get the
// whole result except for skipped folders, which only rank 0 gets. Collective. Throws as
// list_images() and look_at().
FoundFiles find_files(const EvalOptions& options, Communicator& ranks);

// The index of an image that does not decode, and the reason.
using SkippedPlace = std::pair<std::size_t, FileProblem>;
// Returns all ranks' on rank 0, nothing elsewhere. Collective.
std::vector<SkippedPlace> gather_places(const std::vector<SkippedPlace>& own, Communicator& ranks);

}  // namespace retina
