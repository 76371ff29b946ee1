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
  // Limit up to which a thread is added each time the consumer waits; if not above `threads`, none
  // is.
  int most_threads = 0;
  int prefetch_batches = 4;  // limit of batches in memory besides the consumer's
  // Bytes of pixels ahead from which no further batch is begun; one batch may always be.
  std::size_t prefetch_bytes = std::size_t{1} << 30;
  PixelForm form = PixelForm::kNormalised;
  // Allocates the pixels of each batch in memory once, and again only for a larger one.
  BatchAllocator allocate = allocate_plain;
};

// Decode threads of a process: `first` at the start, `most` when its consumer waits for them.
struct DecodeThreads {
  int first = 1, most = 1;
};

// Returns `wanted` threads or, with 0, as many as turn out to be needed: 1 at the start, and up to
// `cores`, the process's share of its machine; one less if a GPU computes, as its driver's thread
// needs one. Where CPUs compute they are idle while they wait for images, so all may decode then.
DecodeThreads choose_decode_threads(int wanted, int cores, bool on_gpu);

// Decodes the batches that `next_request` asks for, which is called from the pool, one call at a
// time, until it returns nullopt. A request without slots gives a batch without images.
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

  // Returns the next batch in order, or nullopt after the last. With `gives_up`, returns nullopt,
  // too, if `gives_up` returns true before the batch is there, or a signal ended a thread's wait
  // for its data. Rethrows what a thread threw while loading it.
  std::optional<Batch> next(const std::function<bool()>& gives_up = {});

  // Returns the present number of decode threads.
  int threads() const;

 private:
  class Pool;
  std::unique_ptr<Pool> pool_;
};

}  // namespace retina
