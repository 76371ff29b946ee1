// NCCL and the part of CUDA that it needs, in one process without a GPU: ranks are threads, device
// memory is the host's. As treacherous as the real ones may be: a stream is a thread that comes
// late by chance; an operation is done some time after its call, an event when its stream has come
// to it; a communicator starts, and launches, in the background, and says so only when it is asked;
// memory is filled with rubbish before it is given and before it is freed. A rank that aborts
// breaks the collectives that the others are in.
#pragma once

#include <cstdint>
#include <string>

namespace retina {

struct FakeNcclOptions {
  std::uint64_t seed = 1;  // of what happens by chance
  int start_polls = 2;   // how often a communicator, once all have come, says that it still starts
  int launch_polls = 2;  // how often a collective is not on its stream yet
  // Which call fails, counted from 0 over all ranks; -1: none. Of the calls that report errors.
  std::int64_t failing_call = -1;
};

// Begins anew. Nothing may be open.
void reset_fake_nccl(const FakeNcclOptions& options);

// Calls of CUDA and NCCL since then, of those that may fail.
std::int64_t fake_call_count();

// "1 stream, 2 events": what was made and not destroyed; empty: nothing.
std::string fake_leaks();

}  // namespace retina
