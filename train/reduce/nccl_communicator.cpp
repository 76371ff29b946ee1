#include "train/reduce/nccl_communicator.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "shared/base/error.h"
#include "shared/comm/activity.h"

namespace retina {
namespace {

constexpr std::chrono::microseconds kPoll(20);
constexpr std::chrono::seconds kStartLimit(180);

void check_cuda(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  throw Error(ErrorKind::kUnavailable, cat(call, ": ", cudaGetErrorString(code)),
              "check the GPU with nvidia-smi, or use --device cpu");
}

ncclDataType_t nccl_type(ElementType type) {
  static constexpr ncclDataType_t kTypes[] = {ncclUint8,   ncclInt64,   ncclFloat32,
                                              ncclFloat64, ncclFloat16, ncclBfloat16};
  return kTypes[static_cast<std::size_t>(type)];  // by ElementType
}

class Nccl : public NcclCommunicator {
 public:
  Nccl(Communicator& host, int device) : host_(host), device_(device) {
    // What the user has set wins.
    setenv("NCCL_ALGO", "allreduce:ring", 0);
    check_cuda(cudaSetDevice(device_), "cudaSetDevice");
    ncclUniqueId id{};
    if (host_.is_root()) {
      check_start(ncclGetUniqueId(&id), "ncclGetUniqueId");
    }
    host_.broadcast(&id, sizeof id, ElementType::kUint8, 0);
    // Reported to the watch as a collective: ranks that never find each other must not wait
    // forever.
    Activity* const activity = host_.activity();
    Operation start{.kind = CollectiveKind::kBarrier};
    start.set_label("NCCL start");
    if (activity != nullptr) activity->begin(start);
    const auto limit = std::chrono::steady_clock::now() + kStartLimit;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;  // so that it can be aborted
    check_start(ncclCommInitRankConfig(&comm_, host_.size(), id, host_.rank(), &config),
                "ncclCommInitRankConfig");
    await_start(limit, "ncclCommInitRankConfig");
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    check_cuda(cudaEventCreateWithFlags(&done_, cudaEventDisableTiming), "cudaEventCreate");
    connect(limit);
    if (activity == nullptr) return;
    activity->end();
    report_to(*activity, [&host] { host.await_diagnosis(); });
  }

  // Without waiting for other ranks: they may be gone.
  ~Nccl() override {
    if (comm_ != nullptr) ncclCommAbort(comm_);
    if (done_ != nullptr) cudaEventDestroy(done_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  int local_rank() const override { return host_.local_rank(); }
  int local_size() const override { return host_.local_size(); }
  void* stream() const override { return stream_; }

 protected:
  void do_all_reduce(void* data, std::size_t count, ElementType type, ReduceOp op) override {
    finish([&] {
      return ncclAllReduce(data, data, count, nccl_type(type),
                           op == ReduceOp::kSum ? ncclSum : ncclMax, comm_, stream_);
    });
  }

  void do_all_reduce_ordered(void*, std::size_t, ElementType) override {
    RETINA_CHECK(false, "NCCL adds in an order of its own");
  }

  void do_broadcast(void* data, std::size_t count, ElementType type, int root) override {
    finish([&] { return ncclBroadcast(data, data, count, nccl_type(type), root, comm_, stream_); });
  }

  std::vector<std::string> do_gather(const std::string& bytes, int root) override {
    return host_.gather(bytes, root);
  }

  void do_barrier() override { host_.barrier(); }

 private:
  using Clock = std::chrono::steady_clock;

  void check_start(ncclResult_t code, const char* call) {
    if (code == ncclSuccess || code == ncclInProgress) return;
    const std::string reason = ncclGetLastError(comm_);
    // Another rank may have died: then the watch says so.
    if (code == ncclRemoteError || code == ncclSystemError) host_.await_diagnosis();
    throw Error(ErrorKind::kUnavailable,
                cat(call, ": ", ncclGetErrorString(code), reason.empty() ? "" : ", ", reason),
                "NCCL_DEBUG=INFO says more");
  }

  static void check_time(Clock::time_point limit) {
    if (Clock::now() < limit) {
      std::this_thread::sleep_for(kPoll);
      return;
    }
    throw Error(ErrorKind::kUnavailable,
                cat("NCCL: the ranks have not reached each other in ", kStartLimit.count(), " s"),
                "name the network between the nodes in NCCL_SOCKET_IFNAME; NCCL_DEBUG=INFO says "
                "more");
  }

  void await_start(Clock::time_point limit, const char* call) {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) {
      check_start(ncclCommGetAsyncError(comm_, &state), call);
      if (state == ncclInProgress) check_time(limit);
    }
    check_start(state, call);
  }

  // NCCL sets up its connections in the first collective. What prevents them (a full /dev/shm, no
  // memory left on the GPU, a closed network) is a fault of this start, not of a rank that died.
  void connect(Clock::time_point limit) {
    void* value = nullptr;
    check_cuda(cudaMalloc(&value, sizeof(float)), "cudaMalloc");
    check_cuda(cudaMemsetAsync(value, 0, sizeof(float), stream_), "cudaMemset");
    check_start(ncclAllReduce(value, value, 1, ncclFloat32, ncclSum, comm_, stream_),
                "ncclAllReduce");
    await_start(limit, "ncclAllReduce");
    check_cuda(cudaEventRecord(done_, stream_), "cudaEventRecord");
    while (!is_done()) {
      await_start(limit, "ncclAllReduce");
      check_time(limit);
    }
    check_cuda(cudaFree(value), "cudaFree");
  }

  // Whether the stream has come to the recorded event.
  bool is_done() {
    const cudaError_t code = cudaEventQuery(done_);
    if (code == cudaErrorNotReady) return false;
    check_cuda(code, "cudaEventQuery");
    return true;
  }

  void check_alive(ncclResult_t code) {
    if (code == ncclSuccess || code == ncclInProgress) return;
    const std::string problem = ncclGetLastError(comm_);
    ncclCommAbort(comm_);
    comm_ = nullptr;
    throw Error(ErrorKind::kRankFailure, cat("NCCL: ", ncclGetErrorString(code), ", ", problem),
                "another rank died; run the same command again");
  }

  template <class Launch>
  void finish(const Launch& launch) {
    RETINA_CHECK(comm_ != nullptr, "used after a failure");
    check_cuda(cudaSetDevice(device_), "cudaSetDevice");
    check_alive(launch());
    // A launch that is in progress is not on the stream yet: neither would be the event.
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) {
      check_alive(ncclCommGetAsyncError(comm_, &state));
      check_alive(state);
      if (state == ncclInProgress) std::this_thread::sleep_for(kPoll);
    }
    check_cuda(cudaEventRecord(done_, stream_), "cudaEventRecord");
    while (!is_done()) {
      check_alive(ncclCommGetAsyncError(comm_, &state));
      check_alive(state);
      std::this_thread::sleep_for(kPoll);
    }
  }

  Communicator& host_;
  const int device_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t done_ = nullptr;
};

}  // namespace

std::unique_ptr<NcclCommunicator> make_nccl_communicator(Communicator& host, int device) {
  return std::make_unique<Nccl>(host, device);
}

}  // namespace retina
