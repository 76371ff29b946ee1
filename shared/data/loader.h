// Loads batches in the order of their requests: a pool of decode threads works a few batches ahead,
// one image a task, in memory that is reused. The result does not depend on the number of threads.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>

#include "shared/data/batch.h"
#include "shared/data/sample_source.h"

namespace retina {

struct LoaderOptions {
  int threads = 2;  // decode threads, see choose_decode_threads()
  // If it is more: each time the consumer has to wait, a thread is added up to this many.
  int most_threads = 0;
  int prefetch_batches = 4;  // batches in memory at most, the one being consumed excluded
  // Bytes of pixels ahead from which no further batch is begun; one batch may always be.
  std::size_t prefetch_bytes = std::size_t{1} << 30;
  PixelForm form = PixelForm::kNormalised;
  // Called once for each batch in memory, and again only for a larger one.
  BatchAllocator allocate = allocate_plain;
};

// Decode threads of a process: `first` at the start, `most` when its consumer waits for them.
struct DecodeThreads {
  int first = 1, most = 1;
};

// Returns `wanted` threads, or with 0 as many as turn out to be needed: 1 at the start, and up to
// `cores`, the process's share of its machine, less one if a GPU computes, whose driver thread
// needs it. CPUs that compute are idle while they wait for images, so that all of them may decode
// then.
DecodeThreads choose_decode_threads(int wanted, int cores, bool on_gpu);

// `next_request` is called from the pool, one call at a time, until it returns nullopt. A request
// without slots gives a batch without images.
//
// A batch's memory goes back to the loader when the last owner of its pixels drops them, and then
// holds another batch's pixels; it may outlive the loader.
class BatchLoader {
 public:
  using RequestSource = std::function<std::optional<BatchRequest>()>;

  // Keeps a reference to `source`, which must outlive the loader.
  BatchLoader(const SampleSource& source, LoaderOptions options, RequestSource next_request);
  ~BatchLoader();  // stops the threads; batches in progress are dropped
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  // Returns the next batch in order, or nullopt after the last. With `gives_up` nullopt also if
  // that returns true while the batch is not there yet, and if a signal ended a thread's wait for
  // its data. Rethrows what a thread threw while loading it.
  std::optional<Batch> next(const std::function<bool()>& gives_up = {});

  // Returns the present number of decode threads.
  int threads() const;

 private:
  class Pool;
  std::unique_ptr<Pool> pool_;
};

}  // namespace retina
