// Loads batches in the order of their requests: a pool of decode threads works a few batches ahead,
// one image a task. The result does not depend on the number of threads.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "shared/data/batch.h"
#include "shared/data/sample_source.h"

namespace retina {

struct LoaderOptions {
  int threads = 2;           // decode threads
  int prefetch_batches = 4;  // batches in memory at most, the one being consumed excluded
  FloatAllocator allocate = allocate_plain;
};

// `next_request` is called from the pool, one call at a time, until it returns nullopt. A request
// without slots gives a batch without images.
class BatchLoader {
 public:
  using RequestSource = std::function<std::optional<BatchRequest>()>;

  // `source` must outlive the loader.
  BatchLoader(const SampleSource& source, LoaderOptions options, RequestSource next_request);
  ~BatchLoader();  // stops the threads; batches under way are dropped
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  // The next batch in order, or nullopt after the last. Rethrows what a thread threw while loading
  // it.
  std::optional<Batch> next();

 private:
  class Pool;
  std::unique_ptr<Pool> pool_;
};

}  // namespace retina
