// Loads batches in the order of their requests: a pool of decode threads works a few batches ahead,
// one image a task. The result does not depend on the number of threads.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "shared/data/batch.h"
#include "shared/image/resize.h"
#include "shared/shard/shard_set.h"

namespace retina {

struct LoaderOptions {
  int threads = 2;           // decode threads
  int prefetch_batches = 4;  // batches in memory at most, the one being consumed excluded
  int min_side_px = 800;     // resize rule, see resized_size()
  int max_side_px = 1333;
  Normalisation normalisation = {};
  FloatAllocator allocate = allocate_plain;
};

// `next_request` is called from the pool, one call at a time, until it returns nullopt.
class BatchLoader {
 public:
  using RequestSource = std::function<std::optional<BatchRequest>()>;

  // `shards` must outlive the loader.
  BatchLoader(const ShardSet& shards, LoaderOptions options, RequestSource next_request);
  ~BatchLoader();  // stops the threads; batches under way are dropped
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  // The next batch in order, or nullopt after the last. Rethrows what a thread threw while loading
  // it: Error{kData} naming shard and record for a damaged one.
  std::optional<Batch> next();

 private:
  class Pool;
  std::unique_ptr<Pool> pool_;
};

// Loads one image into `pixels` (3 planes of padded_width x padded_height f32, zeroed by the
// caller) and returns its sample. `decoder` is the calling thread's.
Sample load_sample(const ShardSet& shards, const Slot& slot, const LoaderOptions& options,
                   const BatchRequest& request, class JpegDecoder& decoder, float* pixels);

}  // namespace retina
