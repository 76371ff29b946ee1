#include "train/reduce/nccl_communicator.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>

#include "shared/base/error.h"
#include "shared/comm/activity.h"

namespace retina {

void check_cuda(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return;
  throw Error(ErrorKind::kUnavailable, cat(call, ": ", cudaGetErrorString(code)),
              "check the GPU with nvidia-smi, or use --device cpu");
}

namespace {

ncclDataType_t nccl_type(ElementType type) {
  static constexpr ncclDataType_t kTypes[] = {ncclUint8,   ncclInt64,   ncclFloat32,
                                              ncclFloat64, ncclFloat16, ncclBfloat16};
  return kTypes[static_cast<std::size_t>(type)];  // indexed by ElementType
}

class Nccl : public NcclCommunicator {
  using Clock = std::chrono::steady_clock;

 public:
  Nccl(Communicator& host, int device) : host_(host), device_(device) {}

  // Called once. The destructor cleans up after a failure.
  void start(double limit_seconds) {
    // The user's own setting has precedence.
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
    limit_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                std::chrono::duration<double>(limit_seconds));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;  // so that it can be aborted
    check_start(ncclCommInitRankConfig(&comm_, host_.size(), id, host_.rank(), &config),
                "ncclCommInitRankConfig");
    await_start("ncclCommInitRankConfig");
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    check_cuda(cudaEventCreateWithFlags(&done_, cudaEventDisableTiming), "cudaEventCreate");
    connect();
    if (activity == nullptr) return;
    activity->end();
    report_to(*activity, [this] { host_.await_diagnosis(); });
  }

  // Does not wait for other ranks: they may be gone.
  ~Nccl() override {
    abort();
    if (done_ != nullptr) cudaEventDestroy(done_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
    if (first_value_ != nullptr) cudaFree(first_value_);
  }
  Nccl(const Nccl&) = delete;
  Nccl& operator=(const Nccl&) = delete;

  int rank() const override { return host_.rank(); }
  int size() const override { return host_.size(); }
  int local_rank() const override { return host_.local_rank(); }
  int local_size() const override { return host_.local_size(); }
  int ranks_on_cores() const override { return host_.ranks_on_cores(); }
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
  void check_start(ncclResult_t code, const char* call) {
    if (code == ncclSuccess || code == ncclInProgress) return;
    const std::string reason = ncclGetLastError(comm_);
    // Another rank may have died: then the watch reports it.
    if (code == ncclRemoteError || code == ncclSystemError) host_.await_diagnosis();
    throw Error(ErrorKind::kUnavailable,
                cat(call, ": ", ncclGetErrorString(code), reason.empty() ? "" : ", ", reason),
                "NCCL_DEBUG=INFO says more");
  }

  void check_time() const {
    if (Clock::now() < limit_) {
      std::this_thread::sleep_for(kDevicePoll);
      return;
    }
    throw Error(
        ErrorKind::kUnavailable, "NCCL: the ranks have not reached each other in time",
        "name the network between the nodes in NCCL_SOCKET_IFNAME; NCCL_DEBUG=INFO says more");
  }

  void await_start(const char* call) {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) {
      check_start(ncclCommGetAsyncError(comm_, &state), call);
      if (state == ncclInProgress) check_time();
    }
    check_start(state, call);
  }

  // Makes NCCL set up its connections, which it does in the first collective. An obstacle (a full
  // /dev/shm, no memory left on the GPU, a closed network) is a fault of this start, not of a rank
  // that died.
  void connect() {
    check_cuda(cudaMalloc(&first_value_, sizeof(float)), "cudaMalloc");
    check_cuda(cudaMemsetAsync(first_value_, 0, sizeof(float), stream_), "cudaMemset");
    check_start(ncclAllReduce(first_value_, first_value_, 1, ncclFloat32, ncclSum, comm_, stream_),
                "ncclAllReduce");
    await_start("ncclAllReduce");
    check_cuda(cudaEventRecord(done_, stream_), "cudaEventRecord");
    while (!is_done()) {
      await_start("ncclAllReduce");
      check_time();
    }
  }

  // Returns whether the stream has reached the recorded event.
  bool is_done() {
    const cudaError_t code = cudaEventQuery(done_);
    if (code == cudaErrorNotReady) return false;
    check_cuda(code, "cudaEventQuery");
    return true;
  }

  void check_alive(ncclResult_t code) {
    if (code == ncclSuccess || code == ncclInProgress) return;
    const std::string problem = ncclGetLastError(comm_);
    throw Error(ErrorKind::kRankFailure, cat("NCCL: ", ncclGetErrorString(code), ", ", problem),
                "another rank died; run the same command again");
  }

  // Aborts without waiting for other ranks. Running work ends, so that its memory may be released.
  void abort() {
    if (comm_ != nullptr) ncclCommAbort(std::exchange(comm_, nullptr));
  }

  template <class Launch>
  void finish(const Launch& launch) {
    RETINA_CHECK(comm_ != nullptr, "used after a failure");
    try {
      perform(launch);
    } catch (const Error&) {
      abort();
      throw;
    }
  }

  template <class Launch>
  void perform(const Launch& launch) {
    check_cuda(cudaSetDevice(device_), "cudaSetDevice");
    check_alive(launch());
    // A launch in progress is not on the stream yet, so an event after it would not be, either.
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) {
      check_alive(ncclCommGetAsyncError(comm_, &state));
      check_alive(state);
      if (state == ncclInProgress) std::this_thread::sleep_for(kDevicePoll);
    }
    check_cuda(cudaEventRecord(done_, stream_), "cudaEventRecord");
    while (!is_done()) {
      check_alive(ncclCommGetAsyncError(comm_, &state));
      check_alive(state);
      std::this_thread::sleep_for(kDevicePoll);
    }
  }

  Communicator& host_;
  const int device_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t done_ = nullptr;
  void* first_value_ = nullptr;  // used by connect()
  Clock::time_point limit_;      // deadline of the start
};

}  // namespace

std::unique_ptr<NcclCommunicator> make_nccl_communicator(Communicator& host, int device,
                                                         double start_limit_seconds) {
  auto nccl = std::make_unique<Nccl>(host, device);
  nccl->start(start_limit_seconds);
  return nccl;
}

}  // namespace retina
