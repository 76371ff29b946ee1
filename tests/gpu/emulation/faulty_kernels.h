// Kernels that show what the emulation finds.
#pragma once

namespace retina::emulation {

enum class Fault {
  kNone,
  kNoBarrier,
  kTwoBarriers,
  kEarlyEnd,
  kUnwritten,        // shared memory
  kUnwrittenOutput,  // an element is read before its thread writes it
  kPastEnd,
  kBlocksMeet,
  kLoneLane,
  kNoAtomic,
};

// out [block_count * 64]: i + 1 modulo 64, in each block.
const char* rotate_on(unsigned block_count, Fault fault, float* out);
// counts [1] += 64 for each block.
const char* count_on(unsigned block_count, Fault fault, unsigned* counts);
// in, out [thread_count].
const char* reverse_block(unsigned thread_count, const float* in, float* out);

}  // namespace retina::emulation
