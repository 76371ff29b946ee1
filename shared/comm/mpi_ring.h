// The ring all-reduce over MPI's point-to-point messages, for large buffers. Used by the MPI back
// end only.
#pragma once

#include <mpi.h>

#include <cstddef>

namespace retina {

struct RingBuffer {
  void* data = nullptr;
  std::size_t count = 0;
  std::size_t element_bytes = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  // Tag of this collective alone: if ranks call different ones nothing matches, and they wait for
  // the watch's diagnosis instead of adding data that do not belong together.
  int tag = 0;
};

// Reduces in place over MPI_COMM_WORLD: reduce-scatter, then all-gather, 2(n-1)/n of the bytes a
// rank (Patarasu & Yuan 2009, "Bandwidth optimal all-reduce algorithms"), in segments, so that
// adding and both directions of the links are busy at once. While nothing arrives the thread
// sleeps: Open MPI's own collectives poll, and take a core from the threads that compute.
// Collective. Returns MPI's error code.
int ring_all_reduce(const RingBuffer& buffer, MPI_Op op);

}  // namespace retina
