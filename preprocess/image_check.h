// Are today's images those that were packed? They belong to a set's identity by their content, not
// by the path of their folder.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "preprocess/options.h"
#include "preprocess/pack_journal.h"
#include "preprocess/pack_plan.h"
#include "shared/shard/shard_set.h"

namespace retina {

// An image that is not what it was.
struct ChangedImage {
  std::string what{};       // "a/7.jpg is no longer there"
  bool was_packed = false;  // else it was quarantined, and its file has appeared or changed
};

// Compares every image of a shard of an interrupted run: those packed with the notes about their
// files, quarantined ones by trying them again. `first_image` is the first one that the shard
// decided about. A packed one that changed is returned rather than one that was quarantined. Throws
// kIo when the mount fails, or when no image of the plan is there: that is not a change, but a
// folder that is gone or a different one.
std::optional<ChangedImage> changed_image(const PackOptions& options, const PackPlan& plan,
                                          std::size_t first_image, const FinishedShard& shard);

// So many packed images of a finished set are compared. The plan is shuffled: the first ones are a
// fair sample, and all of them lie in few shards.
inline constexpr std::size_t kSampledImages = 32;

// The same for a finished set, in words for changed_input_images(); empty: none. All images
// that were quarantined are tried again; of the packed ones a sample is compared whose files are
// still there (a finished set does not need them).
std::string changed_images(const PackOptions& options, const PackPlan& plan, const ShardSet& set);

}  // namespace retina
