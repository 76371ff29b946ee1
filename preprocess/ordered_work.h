// OrderedStreams for works that have one result each: `work(thread, i)` returns it.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>

#include "preprocess/ordered_streams.h"

namespace retina {

template <class Result>
class OrderedWork {
 public:
  using Work = std::function<Result(int thread, std::size_t number)>;

  OrderedWork(const OrderedWorkOptions& options, Work work)
      : streams_(options, [work = std::move(work)](int thread, std::size_t number,
                                                   const typename Streams::Put& put) {
          put(work(thread, number), 0);
        }) {}

  // The next result; call count - first times. Rethrows what its work threw.
  Result take() {
    Result result = std::move(*streams_.take());
    streams_.take();  // its end
    return result;
  }

 private:
  using Streams = OrderedStreams<Result>;
  Streams streams_;
};

}  // namespace retina
