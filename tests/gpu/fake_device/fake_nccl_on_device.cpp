// NCCL, and the part of CUDA that train/reduce calls itself, on fake_device.h: ranks are threads of
// this process, each with a stream of the one device. A collective is on its stream once all ranks
// have called it; it is ATen's operations there, and what they use is looked at as all else.
// tests/train/nccl has how NCCL starts late, fails and breaks.
#include <ATen/ops/from_blob.h>
#include <c10/core/Allocator.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <nccl.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/gpu/fake_device/cuda/c10/cuda/CUDAStream.h"

struct FakeEvent {
  c10::Event event{c10::kCUDA};
};

namespace {

constexpr int kBusy = 2;  // how often a collective that all have called is not on its stream yet

struct Call {
  at::Tensor buffer;
  c10::Stream stream;
  int root;  // of a broadcast; -1: a sum, -2: a maximum
};

struct Group {
  std::size_t size = 0, came = 0;
  std::map<int, Call> calls;  // by rank, of the collective that not all have called
  std::int64_t done = 0;      // collectives
};

std::mutex mutex;
std::map<std::int64_t, Group> groups;

at::Tensor as_tensor(void* memory, std::size_t count, ncclDataType_t type) {
  constexpr at::ScalarType kTypes[] = {at::kByte,   at::kLong, at::kFloat,
                                       at::kDouble, at::kHalf, at::kBFloat16};
  const c10::Device device(c10::kCUDA, 0);
  return at::from_blob(memory, {static_cast<std::int64_t>(count)},
                       at::TensorOptions().dtype(kTypes[type]).device(device));
}

// A rank's operations come before all that others do with its buffer, and those before its next.
void meet(const std::map<int, Call>& calls) {
  for (const auto& [rank, call] : calls) {
    c10::Event here(c10::kCUDA);
    here.record(call.stream);
    for (const auto& [other, its] : calls) here.block(its.stream);
  }
}

void run(const std::map<int, Call>& calls) {
  meet(calls);
  {
    const Call& first = calls.begin()->second;
    const c10::StreamGuard guard(first.stream);
    at::Tensor result = first.root >= 0 ? calls.at(first.root).buffer : first.buffer.clone();
    for (const auto& [rank, call] : calls) {
      if (first.root >= 0 || rank == calls.begin()->first) continue;
      result = first.root == -1 ? result.add(call.buffer) : result.maximum(call.buffer);
    }
    for (const auto& [rank, call] : calls) {
      at::Tensor buffer = call.buffer;
      if (!buffer.is_same(result)) buffer.copy_(result);
    }
  }
  meet(calls);
}

}  // namespace

struct FakeComm {
  Group* group;
  int rank;
  std::int64_t calls = 0;
  int busy = kBusy;

  ncclResult_t call(at::Tensor buffer, c10::Stream stream, int root) {
    const std::lock_guard lock(mutex);
    ++calls;
    busy = kBusy;
    group->calls.insert({rank, {std::move(buffer), stream, root}});
    if (group->calls.size() < group->size) return ncclInProgress;
    run(group->calls);
    group->calls.clear();
    ++group->done;
    return ncclInProgress;
  }
};

const char* cudaGetErrorString(cudaError_t) {
  return "an error";
}
cudaError_t cudaSetDevice(int) {
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  *memory = c10::GetAllocator(c10::kCUDA)->raw_allocate(bytes);
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  c10::impl::VirtualGuardImpl(c10::kCUDA).synchronizeDevice(0);  // as CUDA's does
  c10::GetAllocator(c10::kCUDA)->raw_deallocate(memory);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* memory, int byte, std::size_t bytes, cudaStream_t stream) {
  const c10::StreamGuard guard(stream->stream);
  as_tensor(memory, bytes, ncclUint8).fill_(byte);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const c10::Device device(c10::kCUDA, 0);
  *stream = new FakeStream{c10::impl::VirtualGuardImpl(c10::kCUDA).getNewStream(device)};
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new FakeEvent;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event->event.record(stream->stream);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return event->event.query() ? cudaSuccess : cudaErrorNotReady;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::lock_guard lock(mutex);
  const auto number = static_cast<std::int64_t>(groups.size());
  groups[number] = {};
  std::memcpy(id->internal, &number, sizeof number);
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t*) {
  const std::lock_guard lock(mutex);
  std::int64_t number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  Group& group = groups[number];
  group.size = static_cast<std::size_t>(size);
  ++group.came;
  *comm = new FakeComm{&group, rank};
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  const std::lock_guard lock(mutex);
  const bool is_there = comm->group->came == comm->group->size && comm->group->done >= comm->calls;
  *state = is_there && comm->busy-- <= 0 ? ncclSuccess : ncclInProgress;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclAllReduce(const void*, void* out, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return comm->call(as_tensor(out, count, type), stream->stream, op == ncclSum ? -1 : -2);
}
ncclResult_t ncclBroadcast(const void*, void* out, std::size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return comm->call(as_tensor(out, count, type), stream->stream, root);
}
const char* ncclGetErrorString(ncclResult_t) {
  return "an error";
}
const char* ncclGetLastError(ncclComm_t) {
  return "";
}
