// CUDA graphs of the fake device: what cuda/ATen/cuda/CUDAGraph.h calls. While a graph is recorded
// on a stream, what any thread launches on it, operations and emulated kernels, is kept with its
// arguments, and memory is put back afterwards to what it was: nothing was executed. A launch
// executes it on the same memory, in its order. Meanwhile
// - whatever waits for the device, asks an event or copies from or to the host is refused,
// reported,
//   and breaks the capture;
// - memory that is allocated is the graph's pool's. When it is freed, a graph that is being
// recorded
//   fills it with NaN there, whenever it is launched, and so does at its beginning every graph that
//   is recorded afterwards from the same pool: each might have it for something else.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tests/gpu/fake_device/streams.h"

namespace retina::fake_device {

using GraphStep = std::function<void(StreamId stream)>;

struct Graph {
  std::int64_t pool = 0;
  std::vector<GraphStep> steps = {};
  std::vector<std::pair<char*, std::size_t>> reused = {};  // free in the pool when it was recorded
};

std::int64_t new_pool();
// On the current stream.
void begin_capture(std::int64_t pool);
// Throws c10::Error where the capture is broken; LibTorch's allocators are then as within it until
// end_allocation(). The pool's free memory is released with its last graph.
std::shared_ptr<const Graph> end_capture();
void end_allocation();
void launch(const Graph& graph);

}  // namespace retina::fake_device
