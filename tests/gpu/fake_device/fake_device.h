// A GPU for LibTorch's CPU build, in one process: tensors of the device `cuda:0` lie in the host's
// memory, and ATen's operations on them are those of the CPU. So what the product does with a GPU
// runs where there is none, and is watched:
// - a copy between page-locked memory and the device that is not waited for is done when an event
//   behind it is seen done, by chance a few queries later, or when somebody waits for it. Until
//   then the host's memory must stay as it is, and has nothing that came from the device;
// - memory is filled with NaN before it is given and when it is freed, but for that of more than
//   64 MB, which is 0 and takes what is touched;
// - kernels of our own are emulated, and watched as emulation/memory.h says;
// - two operations of different streams that use the same memory, one of them to write, without an
//   event or a wait between them are reported, as is memory that is freed while another stream
//   than its own may use it (streams.h);
// - no time is between events that were not seen done, or recorded without time;
// - every wait of the host for the device is counted;
// - any call may be made to fail.
//
// Linked into a program, it is there. Operations are computed when they are called, so that results
// are those of the intended order, and the report alone tells that nothing ensures it.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tests/gpu/emulation/grid.h"

namespace retina::fake_device {

// What goes wrong: the memory ends, or calls fail from one on, as a broken GPU's do.
struct Faults {
  std::int64_t memory_bytes = std::int64_t{8} << 30;
  std::int64_t out_of_memory_at = -1;  // allocation number, counted from 0; -1: none
  std::int64_t broken_from = -1;       // operation number
  // By their launches ("drop"), or "all": their last block does not run.
  std::set<std::string> broken_kernels = {};
  // Of every kernel, only these blocks run, nullptr: all; then memory is 0, not NaN.
  emulation::Blocks only_blocks = nullptr;
  std::uint32_t seed = 1;  // of how often an event that is asked is not done yet
};

// Begins to count anew.
void reset(const Faults& faults = {});

struct Counts {
  std::int64_t operations = 0, allocations = 0;
  std::int64_t waits = 0;            // the host for the device
  std::vector<std::string> waiting;  // the operations that waited, in order
  std::int64_t late_copies = 0;      // that were not waited for
  std::int64_t kernels = 0;          // of ours, launched by the host
};
Counts counts();

// What the host did to memory that a copy was still to read, and what streams did to each other's;
// one line each, the first hundred. Empty: nothing.
std::vector<std::string> violations();

}  // namespace retina::fake_device
