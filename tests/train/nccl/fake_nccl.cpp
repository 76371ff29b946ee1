#include "tests/train/nccl/fake_nccl.h"

#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/comm/element_loops.h"

namespace retina {
namespace {

constexpr int kRubbish = 0xcd;

// One call that all ranks make together.
struct Collective {
  std::vector<void*> buffers;  // by rank; null: has not come
  bool is_done = false;
  bool is_broken = false;  // a rank is gone that had to come
};

// The communicators that one id makes.
struct Group {
  std::vector<FakeComm*> members;  // by rank; null: has not come, or is gone
  bool is_complete = false;        // all have come
  std::set<int> gone;
  std::map<std::int64_t, Collective> collectives;  // by their number
};

}  // namespace
}  // namespace retina

using namespace retina;  // what follows has the names of two libraries

struct FakeEvent {
  bool is_done = true;  // as CUDA's, before it is recorded
};

// Its thread takes one operation after another; one that returns false is tried again.
struct FakeStream {
  std::deque<std::function<bool()>> operations;
  bool ends = false;
  std::thread thread;
};

struct FakeComm {
  Group* group = nullptr;
  int rank = 0;
  std::int64_t calls = 0;             // collectives so far
  int polls = 0;                      // until what is in progress is done
  std::function<void()> in_progress;  // empty: nothing is
  bool is_starting = true;
  Collective* last = nullptr;  // launched last
};

namespace {

// All of it, under one lock.
struct Fake {
  std::mutex mutex;
  std::condition_variable changed;
  FakeNcclOptions options;
  std::mt19937_64 chance;
  std::int64_t calls = 0;
  std::map<std::int64_t, Group> groups;
  std::int64_t ids = 0;
  std::set<FakeComm*> comms;
  std::set<FakeStream*> streams;
  std::set<FakeEvent*> events;
  std::map<void*, std::size_t> memory;
};

Fake& fake() {
  static Fake all;
  return all;
}

using Lock = std::unique_lock<std::mutex>;

// Whether this call is the one that fails.
bool fails() {
  return fake().calls++ == fake().options.failing_call;
}

void work(FakeStream& stream) {
  Lock lock(fake().mutex);
  for (;;) {
    fake().changed.wait(lock, [&] { return stream.ends || !stream.operations.empty(); });
    if (stream.operations.empty()) return;
    const auto late = std::chrono::microseconds(fake().chance() % 200);
    lock.unlock();
    std::this_thread::sleep_for(late);
    lock.lock();
    if (!stream.operations.front()()) continue;
    stream.operations.pop_front();
    fake().changed.notify_all();
  }
}

void enqueue(FakeStream* stream, std::function<bool()> operation) {
  stream->operations.push_back(std::move(operation));
  fake().changed.notify_all();
}

ElementType element_type(ncclDataType_t type) {
  static constexpr ElementType kTypes[] = {ElementType::kUint8,   ElementType::kInt64,
                                           ElementType::kFloat32, ElementType::kFloat64,
                                           ElementType::kFloat16, ElementType::kBFloat16};
  return kTypes[type];
}

// Puts a collective of `comm` on its stream later, when it is polled. `compute` gets the buffers of
// all ranks once all have come.
ncclResult_t launch(FakeComm* comm, void* buffer, FakeStream* stream,
                    std::function<void(const std::vector<void*>&)> compute) {
  const Lock lock(fake().mutex);
  if (fails()) return ncclUnhandledCudaError;
  RETINA_CHECK(!comm->is_starting && !comm->in_progress, "called before it is ready");
  Group* const group = comm->group;
  Collective* const mine = &group->collectives[comm->calls++];
  mine->buffers.resize(group->members.size(), nullptr);
  mine->is_broken = mine->is_broken || (!mine->is_done && !group->gone.empty());
  comm->last = mine;
  comm->polls = fake().options.launch_polls;
  const int rank = comm->rank;
  comm->in_progress = [=, compute = std::move(compute)] {
    enqueue(stream, [=] {
      // As a kernel that waits for others: only what its own rank does can end it.
      if (mine->is_done || !fake().comms.contains(comm)) return true;
      if (mine->is_broken) return false;
      auto& buffers = mine->buffers;
      buffers[static_cast<std::size_t>(rank)] = buffer;
      if (std::count(buffers.begin(), buffers.end(), nullptr) != 0) return false;
      compute(buffers);
      mine->is_done = true;
      return true;
    });
  };
  return ncclInProgress;
}

}  // namespace

namespace retina {

void reset_fake_nccl(const FakeNcclOptions& options) {
  const Lock lock(fake().mutex);
  fake().options = options;
  fake().chance.seed(options.seed);
  fake().calls = 0;
  fake().groups.clear();
}

std::int64_t fake_call_count() {
  const Lock lock(fake().mutex);
  return fake().calls;
}

std::string fake_leaks() {
  const Lock lock(fake().mutex);
  std::string text;
  for (const auto& [count, noun] :
       {std::pair{fake().comms.size(), "communicator"}, std::pair{fake().streams.size(), "stream"},
        std::pair{fake().events.size(), "event"}, std::pair{fake().memory.size(), "buffer"}}) {
    if (count > 0) text += cat(text.empty() ? "" : ", ", counted(count, noun));
  }
  return text;
}

}  // namespace retina

const char* cudaGetErrorString(cudaError_t code) {
  return code == cudaErrorMemoryAllocation ? "out of memory" : "device not ready";
}

cudaError_t cudaSetDevice(int) {
  const Lock lock(fake().mutex);
  return fails() ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  const Lock lock(fake().mutex);
  if (fails()) return cudaErrorMemoryAllocation;
  *memory = std::malloc(bytes);
  std::memset(*memory, kRubbish, bytes);
  fake().memory[*memory] = bytes;
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  const Lock lock(fake().mutex);
  std::memset(memory, kRubbish, fake().memory.at(memory));
  fake().memory.erase(memory);
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* memory, int byte, std::size_t bytes, cudaStream_t stream) {
  const Lock lock(fake().mutex);
  if (fails()) return cudaErrorMemoryAllocation;
  enqueue(stream, [=] {
    std::memset(memory, byte, bytes);
    return true;
  });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const Lock lock(fake().mutex);
  if (fails()) return cudaErrorMemoryAllocation;
  *stream = new FakeStream;
  (*stream)->thread = std::thread([made = *stream] { work(*made); });
  fake().streams.insert(*stream);
  return cudaSuccess;
}

// What is queued is still done, as with CUDA.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  {
    const Lock lock(fake().mutex);
    stream->ends = true;
    fake().streams.erase(stream);
    fake().changed.notify_all();
  }
  stream->thread.join();
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  const Lock lock(fake().mutex);
  if (fails()) return cudaErrorMemoryAllocation;
  *event = new FakeEvent;
  fake().events.insert(*event);
  return cudaSuccess;
}

// The stream's record of it may still come: as with CUDA, that is nobody's any more.
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Lock lock(fake().mutex);
  fake().events.erase(event);
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const Lock lock(fake().mutex);
  if (fails()) return cudaErrorMemoryAllocation;
  event->is_done = false;
  enqueue(stream, [event] {
    if (fake().events.contains(event)) event->is_done = true;
    return true;
  });
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Lock lock(fake().mutex);
  if (fails()) return cudaErrorMemoryAllocation;
  return event->is_done ? cudaSuccess : cudaErrorNotReady;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const Lock lock(fake().mutex);
  if (fails()) return ncclSystemError;
  const std::int64_t number = fake().ids++;
  std::memcpy(id->internal, &number, sizeof number);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  const Lock lock(fake().mutex);
  if (fails()) return ncclSystemError;
  RETINA_CHECK(config->blocking == 0, "a blocking communicator cannot be aborted");
  std::int64_t number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  Group& group = fake().groups[number];
  group.members.resize(static_cast<std::size_t>(size), nullptr);
  *comm = new FakeComm;
  (*comm)->group = &group;
  (*comm)->rank = rank;
  (*comm)->polls = fake().options.start_polls;
  (*comm)->in_progress = [made = *comm] { made->is_starting = false; };
  fake().comms.insert(*comm);
  group.members.at(static_cast<std::size_t>(rank)) = *comm;
  if (std::count(group.members.begin(), group.members.end(), nullptr) == 0) {
    group.is_complete = true;
  }
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  const Lock lock(fake().mutex);
  if (fails()) return ncclSystemError;
  const Group& group = *comm->group;
  if (comm->is_starting && !group.is_complete) {
    *state = group.gone.empty() ? ncclInProgress : ncclRemoteError;
    return ncclSuccess;
  }
  if (comm->in_progress && comm->polls-- <= 0) std::exchange(comm->in_progress, nullptr)();
  const bool is_broken = comm->last != nullptr && comm->last->is_broken;
  *state = is_broken ? ncclRemoteError : comm->in_progress ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const Lock lock(fake().mutex);
  Group& group = *comm->group;
  group.gone.insert(comm->rank);
  for (auto& [number, collective] : group.collectives) {
    collective.is_broken = collective.is_broken || !collective.is_done;
  }
  fake().changed.notify_all();
  fake().comms.erase(comm);
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  RETINA_CHECK(in == out, "in place only");
  return launch(comm, out, stream, [=](const std::vector<void*>& buffers) {
    const std::vector<const void*> inputs(buffers.begin(), buffers.end());
    const ReduceOp reduce = op == ncclSum ? ReduceOp::kSum : ReduceOp::kMax;
    reduce_in_order(inputs, buffers[0], count, element_type(type), reduce);
    for (void* other : buffers) {
      if (other == buffers[0]) continue;
      std::memcpy(other, buffers[0], count * element_size_bytes(element_type(type)));
    }
  });
}

ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  RETINA_CHECK(in == out, "in place only");
  return launch(comm, out, stream, [=](const std::vector<void*>& buffers) {
    void* const from = buffers[static_cast<std::size_t>(root)];
    for (void* other : buffers) {
      if (other == from) continue;
      std::memcpy(other, from, count * element_size_bytes(element_type(type)));
    }
  });
}

const char* ncclGetErrorString(ncclResult_t code) {
  return code == ncclRemoteError ? "remote error" : "an error that the test asked for";
}

const char* ncclGetLastError(ncclComm_t) {
  return "";
}
