#include "tests/gpu/fake_device/fake_device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <utility>

#include "shared/base/cat.h"
#include "shared/model/device.h"
#include "tests/gpu/emulation/grid.h"
#include "tests/gpu/fake_device/graphs.h"
#include "tests/gpu/fake_device/streams.h"

namespace retina {

std::vector<std::string> visible_gpus() {
  return {"the fake one"};
}

namespace fake_device {
namespace {

constexpr int kNan = 0xff;  // as every byte of a floating-point number
const c10::Device kDevice(c10::kCUDA, 0);

// A copy that was not waited for, between host memory and the device.
struct LateCopy {
  void* host = nullptr;
  std::string bytes{};  // what the host had; or, to the host, what it gets
  bool to_device = true;
  Operation operation = {};
};

struct Event {
  Clock clock = {};  // of its stream when it was recorded
  int queries = 0;   // that still say no
  bool has_time = false;
};

// The graph that is being recorded.
struct Capture {
  StreamId stream = 0;
  Graph graph = {};
  std::map<char*, std::string> before = {};  // memory's bytes when it began
  std::vector<char*> allocated = {};
  bool is_broken = false;
};

struct State {
  std::recursive_mutex mutex;
  Faults faults;
  Counts counts;
  std::vector<std::string> violations;
  std::mt19937 chance{1};
  std::deque<LateCopy> copies;
  Streams streams;
  StreamId stream_count = 1;                  // the default one is 0
  std::map<char*, std::size_t> pinned;        // begin -> bytes
  std::map<char*, std::size_t> pinned_freed;  // whose copies are still to be done
  std::map<char*, Block> device;
  std::int64_t held_bytes = 0, peak_bytes = 0;
  std::optional<Capture> capture;
  bool allocates_to_pool = false;  // a capture that CUDA has ended, LibTorch's allocators not
  std::int64_t pool_count = 0;     // of graphs
  std::map<std::int64_t, int> graphs_of_pool;  // that live
};

State& state() {
  static State* const all = new State;  // tensors of static storage are freed late
  return *all;
}

using Lock = std::lock_guard<std::recursive_mutex>;

thread_local StreamId current_stream = 0;

bool is_pinned(const void* memory) {
  const char* const at = static_cast<const char*>(memory);
  const auto above = state().pinned.upper_bound(const_cast<char*>(at));
  if (above == state().pinned.begin()) return false;
  const auto& [begin, bytes] = *std::prev(above);
  return at < begin + bytes;
}

// The allocation that has all of it, or nullptr.
Block* block_of(const void* memory, std::size_t bytes) {
  const char* const at = static_cast<const char*>(memory);
  const auto above = state().device.upper_bound(const_cast<char*>(at));
  if (above == state().device.begin()) return nullptr;
  auto& [begin, block] = *std::prev(above);
  return at + bytes <= begin + block.bytes ? &block : nullptr;
}

void report(const std::string& violation) {
  constexpr std::size_t kMost = 100;
  if (!violation.empty() && state().violations.size() < kMost) {
    state().violations.push_back(violation);
  }
}

void use(const at::Tensor& tensor, const Operation& operation, bool writes) {
  if (!tensor.defined() || !tensor.is_cuda() || tensor.numel() == 0) return;
  Block* const block = block_of(tensor.const_data_ptr(), 1);
  if (block == nullptr) return;
  report(writes ? state().streams.write(*block, operation)
                : state().streams.read(*block, operation));
}

bool is_under_way(const char* begin, std::size_t bytes) {
  return std::any_of(state().copies.begin(), state().copies.end(), [&](const LateCopy& copy) {
    const char* const host = static_cast<const char*>(copy.host);
    return host >= begin && host < begin + bytes;
  });
}

// What follows from what the host has seen done: copies, to the host and from it.
void complete_copies() {
  for (auto copy = state().copies.begin(); copy != state().copies.end();) {
    if (!state().streams.is_done(copy->operation)) {
      ++copy;
      continue;
    }
    if (!copy->to_device) {
      std::memcpy(copy->host, copy->bytes.data(), copy->bytes.size());
    } else if (std::memcmp(copy->host, copy->bytes.data(), copy->bytes.size()) != 0) {
      report(cat("host memory of ", copy->bytes.size(),
                 " bytes changed before it was copied to the device"));
    }
    copy = state().copies.erase(copy);
  }
  for (auto block = state().pinned_freed.begin(); block != state().pinned_freed.end();) {
    const auto next = std::next(block);
    if (!is_under_way(block->first, block->second)) {
      std::free(block->first);
      state().pinned_freed.erase(block);
    }
    block = next;
  }
}

void see(const Clock& clock) {
  state().streams.seen(clock);
  complete_copies();
}

void see_all() {
  state().streams.seen_all();
  complete_copies();
}

// Whether what this thread launches is recorded.
bool is_recording() {
  return state().capture && state().capture->stream == current_stream;
}

// As CUDA answers a call that no capture may have: it is over.
[[noreturn]] void break_capture(const std::string& what) {
  state().capture->is_broken = true;
  TORCH_CHECK(false, "CUDA error: operation not permitted when stream is capturing: ", what);
}
void refuse_in_capture(const std::string& what) {
  if (!is_recording()) return;
  report(cat(what, " while a graph is recorded"));
  break_capture(what);
}

void record_step(GraphStep step) {
  const std::int64_t number = state().counts.recorded++;
  if (number == state().faults.broken_capture) break_capture("made to fail");
  state().capture->graph.steps.push_back(std::move(step));
}

void count_wait(const std::string& who) {
  refuse_in_capture(cat("a wait for ", who));
  ++state().counts.waits;
  state().counts.waiting.push_back(who);
}

// The host waits for a stream.
void wait(const std::string& who, StreamId stream) {
  const Lock lock(state().mutex);
  count_wait(who);
  see(state().streams.reached(stream));
}

void wait_for_all() {
  const Lock lock(state().mutex);
  count_wait("the device");
  see_all();
}

void check_broken() {
  const std::int64_t number = state().counts.operations++;
  const std::int64_t from = state().faults.broken_from;
  TORCH_CHECK(from < 0 || number < from, "CUDA error: unspecified launch failure");
}

// --- Memory
// ----------------------------------------------------------------------------------------

void free_device(void* memory) {
  const Lock lock(state().mutex);
  const auto found = state().device.find(static_cast<char*>(memory));
  Block& block = found->second;
  if (block.pool != 0 && (state().capture || state().graphs_of_pool.contains(block.pool))) {
    // Graphs go on using it: one that is being recorded, from here on for something else.
    block.is_free = true;
    if (!is_recording()) return;
    state().capture->graph.steps.push_back(
        [memory, bytes = block.bytes](StreamId) { std::memset(memory, kNan, bytes); });
    return;
  }
  report(state().streams.free(block));
  std::memset(memory, kNan, block.bytes);
  state().held_bytes -= static_cast<std::int64_t>(found->second.bytes);
  state().device.erase(found);
  std::free(memory);
}

class DeviceMemory : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const Lock lock(state().mutex);
    State& all = state();
    const auto size = static_cast<std::int64_t>(bytes);
    const bool fails = all.counts.allocations++ == all.faults.out_of_memory_at;
    TORCH_CHECK_WITH(OutOfMemoryError, !fails && all.held_bytes + size <= all.faults.memory_bytes,
                     "CUDA out of memory. Tried to allocate ", bytes, " bytes");
    void* const memory = std::malloc(std::max<std::size_t>(bytes, 1));
    std::memset(memory, kNan, bytes);
    Block& block =
        all.device[static_cast<char*>(memory)] = {.bytes = bytes, .home = current_stream};
    if (is_recording()) {
      block.pool = all.capture->graph.pool;
      all.capture->allocated.push_back(static_cast<char*>(memory));
    }
    all.held_bytes += size;
    all.peak_bytes = std::max(all.peak_bytes, all.held_bytes);
    return {memory, memory, free_device, kDevice};
  }
  c10::DeleterFnPtr raw_deleter() const override { return free_device; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr& data, c10::Stream stream) override {
    const Lock lock(state().mutex);
    if (Block* const block = block_of(data.get(), 0)) block->recorded.insert(stream.id());
  }
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex) override {
    const Lock lock(state().mutex);
    constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    c10::CachingDeviceAllocator::DeviceStats stats;
    for (auto* one : {&stats.allocated_bytes, &stats.reserved_bytes}) {
      (*one)[kAll].current = state().held_bytes;
      (*one)[kAll].peak = state().peak_bytes;
    }
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex) override {
    const Lock lock(state().mutex);
    state().peak_bytes = state().held_bytes;
  }
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex) override {
    const Lock lock(state().mutex);
    const std::int64_t limit = state().faults.memory_bytes;
    return {static_cast<std::size_t>(limit - state().held_bytes), static_cast<std::size_t>(limit)};
  }
};

// As LibTorch's pool: memory whose copies are under way is not given away.
void free_pinned(void* memory) {
  const Lock lock(state().mutex);
  const auto found = state().pinned.find(static_cast<char*>(memory));
  const auto [begin, bytes] = *found;
  state().pinned.erase(found);
  if (is_under_way(begin, bytes)) {
    state().pinned_freed[begin] = bytes;
  } else {
    std::free(begin);
  }
}

class PinnedMemory : public at::HostAllocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const Lock lock(state().mutex);
    void* const memory = std::malloc(std::max<std::size_t>(bytes, 1));
    std::memset(memory, kNan, bytes);
    state().pinned[static_cast<char*>(memory)] = std::max<std::size_t>(bytes, 1);
    return {memory, memory, free_pinned, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return free_pinned; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }
  bool record_event(void*, void*, c10::Stream) override { return true; }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}
};

DeviceMemory& device_memory() {
  static auto* const memory = new DeviceMemory;
  return *memory;
}

// --- LibTorch's idea of a device
// -------------------------------------------------------------------

struct Guard final : c10::impl::DeviceGuardImplInterface {
  static c10::Stream stream(StreamId id) { return c10::Stream(c10::Stream::UNSAFE, kDevice, id); }
  c10::DeviceType type() const override { return c10::kCUDA; }
  c10::Device exchangeDevice(c10::Device) const override { return kDevice; }
  c10::Device getDevice() const override { return kDevice; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const override { return stream(current_stream); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(0); }
  c10::Stream getNewStream(c10::Device, int) const override {
    const Lock lock(state().mutex);
    return stream(state().stream_count++);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return getNewStream(device, 0);
  }
  c10::Stream exchangeStream(c10::Stream next) const override {
    return stream(std::exchange(current_stream, next.id()));
  }
  void* getStreamNativeHandle(const c10::Stream one) const override {
    return reinterpret_cast<void*>(one.id());
  }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }

  void record(void** event, const c10::Stream& on, const c10::DeviceIndex,
              const c10::EventFlag flag) const override {
    const Lock lock(state().mutex);
    refuse_in_capture("an event");
    if (*event == nullptr) *event = new Event;
    state().streams.begin(on.id(), "an event");
    *static_cast<Event*>(*event) = {.clock = state().streams.reached(on.id()),
                                    .queries = static_cast<int>(state().chance() % 4),
                                    .has_time = flag == c10::EventFlag::BACKEND_DEFAULT};
  }
  void block(void* event, const c10::Stream& who) const override {
    const Lock lock(state().mutex);
    if (event != nullptr) state().streams.wait(who.id(), static_cast<Event*>(event)->clock);
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }
  bool queryEvent(void* event) const override {
    const Lock lock(state().mutex);
    refuse_in_capture("a question for an event");
    auto* const asked = static_cast<Event*>(event);
    if (asked == nullptr || state().streams.is_done(asked->clock)) return true;
    if (asked->queries-- > 0) return false;
    see(asked->clock);
    return true;
  }
  void synchronizeEvent(void* event) const override {
    const Lock lock(state().mutex);
    count_wait("an event");
    if (event != nullptr) see(static_cast<Event*>(event)->clock);
  }
  bool queryStream(const c10::Stream& one) const override {
    const Lock lock(state().mutex);
    return state().streams.is_done(state().streams.reached(one.id()));
  }
  void synchronizeStream(const c10::Stream& one) const override { wait("a stream", one.id()); }
  void synchronizeDevice(const c10::DeviceIndex) const override { wait_for_all(); }
  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& one) const override {
    device_memory().recordStream(data, one);
  }
  double elapsedTime(void* from, void* to, const c10::DeviceIndex) const override {
    const Lock lock(state().mutex);
    for (const void* const one : {from, to}) {
      const auto* const event = static_cast<const Event*>(one);
      TORCH_CHECK(event != nullptr && event->has_time, "CUDA error: invalid resource handle");
      TORCH_CHECK(state().streams.is_done(event->clock), "CUDA error: device not ready");
    }
    return 1;
  }
};

C10_REGISTER_GUARD_IMPL(CUDA, Guard)

struct Hooks : at::CUDAHooksInterface {
  explicit Hooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  bool hasCUDART() const override { return true; }
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  int getNumGPUs() const override { return 1; }
  c10::DeviceIndex current_device() const override { return 0; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice(c10::DeviceIndex) const override {}
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override { return 0; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
  bool supportsBFloat16ConvolutionWithCuDNNv8() const override { return true; }
  c10::Allocator* getCUDADeviceAllocator() const override { return &device_memory(); }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    return at::getHostAllocator(c10::kCUDA);
  }
  bool isPinnedPtr(const void* memory) const override {
    const Lock lock(state().mutex);
    return is_pinned(memory);
  }
  c10::Device getDeviceFromPtr(void*) const override { return kDevice; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  void deviceSynchronize(c10::DeviceIndex) const override { wait_for_all(); }
};

const at::RegistererCUDAHooksRegistry kHooks(
    "CUDAHooks", at::CUDAHooksRegistry(), at::RegistererCUDAHooksRegistry::DefaultCreator<Hooks>);

thread_local bool is_replaying = false;

// The emulated kernel that runs; one at a time does.
Operation kernel;

void begin_kernel(const char* name, const void* stream) {
  const Lock lock(state().mutex);
  kernel = state().streams.begin(reinterpret_cast<StreamId>(stream), name);
  if (!is_replaying) ++state().counts.kernels;
  const std::string& broken = state().faults.broken_kernel;
  const bool is_broken = broken == "all" || broken == name;
  const auto all_but_last = [](const emulation::uint3& block, const emulation::dim3& grid) {
    return block.x + 1 < grid.x || block.y + 1 < grid.y;
  };
  emulation::run_only(is_broken ? std::function(all_but_last) : nullptr);
}

bool record_kernel(const emulation::Kernel& launched, const emulation::dim3& grid,
                   const emulation::dim3& block, std::size_t shared_bytes) {
  const Lock lock(state().mutex);
  if (!state().capture || reinterpret_cast<StreamId>(launched.stream) != state().capture->stream) {
    return false;
  }
  ++state().counts.kernels;
  const auto* const first = static_cast<const char*>(launched.arguments);
  std::vector<char> arguments(first, first + launched.argument_bytes);
  record_step([launched, grid, block, shared_bytes, arguments](StreamId stream) {
    emulation::Kernel again = launched;
    again.arguments = arguments.data();
    again.stream = reinterpret_cast<const void*>(stream);
    emulation::launch(again, grid, block, shared_bytes);
    if (const char* const error = emulation::take_error()) report(error);
  });
  return true;
}

bool use_in_kernel(const void* address, std::size_t bytes, emulation::Access access) {
  const Lock lock(state().mutex);
  Block* const block = block_of(address, bytes);
  if (block == nullptr) return false;
  const bool reads = access == emulation::Access::kRead;
  const Operation& known = reads ? block->read[kernel.stream] : block->written;
  if (known.stream == kernel.stream && known.place == kernel.place) return true;
  report(reads ? state().streams.read(*block, kernel) : state().streams.write(*block, kernel));
  return true;
}

struct Registration {
  Registration() {
    emulation::allow_memory(
        {.begin = begin_kernel, .may_use = use_in_kernel, .records = record_kernel});
    c10::SetAllocator(c10::kCUDA, &device_memory());
    at::setHostAllocator(c10::kCUDA, new PinnedMemory, 255);
  }
};
const Registration kRegistration;

// --- Operations
// ------------------------------------------------------------------------------------

// The same memory as a tensor of the CPU's.
at::Tensor on_cpu(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda()) return tensor;
  return at::from_blob(tensor.mutable_data_ptr(), tensor.sizes(), tensor.strides(),
                       at::TensorOptions().dtype(tensor.dtype()));
}

at::Tensor empty_like_on_device(const at::Tensor& tensor) {
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(kDevice));
}

at::Tensor on_device(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.is_cuda()) return tensor;
  at::Tensor result = empty_like_on_device(tensor);
  on_cpu(result).copy_(tensor);
  return result;
}

// For every tensor of an argument, in lists and optional ones, too.
template <class Change>
c10::IValue changed(const c10::IValue& value, const Change& change) {
  if (value.isTensor()) return change(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(change(tensor));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList()) {
      list.push_back(tensor ? std::optional(change(*tensor)) : tensor);
    }
    return list;
  }
  if (value.isDevice()) return c10::IValue(c10::Device(c10::kCPU));
  return value;
}

// Of an argument or a result.
void use_all(const c10::IValue& value, const Operation& operation, bool writes) {
  changed(value, [&](const at::Tensor& tensor) {
    use(tensor, operation, writes);
    return tensor;
  });
}
void use_result(const c10::IValue& value, const Operation& operation) {
  const Lock lock(state().mutex);
  use_all(value, operation, /*writes=*/true);
}

// Which of the arguments the operator returns as result number `r`, or nullptr.
const c10::IValue* argument_that_is(const c10::FunctionSchema& schema, std::size_t r,
                                    const std::vector<c10::IValue>& arguments) {
  const c10::AliasInfo* const alias = schema.returns()[r].alias_info();
  const c10::IValue* same = nullptr;
  for (std::size_t i = 0; alias != nullptr && i < arguments.size(); ++i) {
    const c10::AliasInfo* const other = schema.arguments()[i].alias_info();
    if (other != nullptr && other->beforeSets() == alias->beforeSets()) same = &arguments[i];
  }
  return same;
}

// Whether the host waits for the operation, on a GPU: for a number, or for the size of a result.
bool waits(const std::string& name, const std::vector<c10::IValue>& arguments) {
  static const std::vector<std::string> kNames = {"aten::_local_scalar_dense",
                                                  "aten::nonzero",
                                                  "aten::masked_select",
                                                  "aten::_unique2",
                                                  "aten::equal",
                                                  "aten::bincount",
                                                  "aten::unique_dim"};
  if (std::find(kNames.begin(), kNames.end(), name) != kNames.end()) return true;
  if (name != "aten::index") return false;
  const auto indices = arguments.at(1).toOptionalTensorList();
  return std::any_of(indices.begin(), indices.end(), [](const std::optional<at::Tensor>& index) {
    return index && index->defined() && index->scalar_type() == at::kBool;
  });
}

// What an operation does to memory, for when a graph is launched.
struct Use {
  const void* memory;
  bool writes;
};
void collect(const c10::IValue& value, bool writes, std::vector<Use>& uses) {
  changed(value, [&](const at::Tensor& tensor) {
    if (tensor.defined() && tensor.is_cuda() && tensor.numel() > 0) {
      uses.push_back({tensor.const_data_ptr(), writes});
    }
    return tensor;
  });
}
// A step of a graph: `compute` on the CPU's tensors.
GraphStep step_of(const char* name, std::vector<Use> uses, std::function<void()> compute) {
  return [name, uses = std::move(uses), compute = std::move(compute)](StreamId stream) {
    {
      const Lock lock(state().mutex);
      const Operation operation = state().streams.begin(stream, name);
      for (const Use& one : uses) {
        Block* const block = block_of(one.memory, 1);
        if (block == nullptr) {
          report(cat(name, " of a graph uses memory that is gone"));
          return;
        }
        report(one.writes ? state().streams.write(*block, operation)
                          : state().streams.read(*block, operation));
      }
    }
    compute();
  };
}

std::vector<at::Tensor> tensors_of(const std::vector<c10::IValue>& values) {
  std::vector<at::Tensor> list;
  for (const c10::IValue& value : values) {
    changed(value, [&](const at::Tensor& tensor) {
      if (tensor.defined()) list.push_back(tensor);
      return tensor;
    });
  }
  return list;
}

// Runs the CPU's kernel on the same memory, for the sizes of the results: values are those of the
// launch of the graph.
void record_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const char* const name = schema.name().c_str();
  const std::size_t count = schema.arguments().size(), first = stack->size() - count;
  const std::vector<c10::IValue> given(stack->begin() + static_cast<std::ptrdiff_t>(first),
                                       stack->end());
  if (waits(name, given)) refuse_in_capture(name);
  std::vector<Use> uses;
  std::vector<c10::IValue> arguments;
  for (std::size_t i = 0; i < count; ++i) {
    const c10::AliasInfo* const alias = schema.arguments()[i].alias_info();
    const bool writes = alias != nullptr && alias->isWrite();
    if (writes && given[i].isTensor() && given[i].toTensor().numel() == 0) {
      refuse_in_capture(cat("an output of ", name, " that grows"));
    }
    collect(given[i], writes, uses);
    arguments.push_back(changed(given[i], on_cpu));
    (*stack)[first + i] = arguments.back();
  }
  op.callBoxed(stack);

  const std::size_t results = schema.returns().size(), first_result = stack->size() - results;
  std::vector<std::size_t> made;  // numbers of the results that are not arguments
  std::vector<c10::IValue> made_values;
  for (std::size_t r = 0; r < results; ++r) {
    c10::IValue& result = (*stack)[first_result + r];
    const c10::IValue* const same = argument_that_is(schema, r, given);
    if (same != nullptr) {
      result = *same;
      continue;
    }
    result = changed(result, on_device);
    collect(result, /*writes=*/true, uses);
    made.push_back(r);
    made_values.push_back(changed(result, on_cpu));
  }
  const Lock lock(state().mutex);
  record_step(step_of(name, std::move(uses),
                      [op, arguments, results, made, into = tensors_of(made_values)] {
                        torch::jit::Stack again = arguments;
                        op.callBoxed(&again);
                        std::vector<c10::IValue> values;
                        for (const std::size_t r : made) {
                          values.push_back(again[again.size() - results + r]);
                        }
                        const std::vector<at::Tensor> from = tensors_of(values);
                        for (std::size_t i = 0; i < into.size(); ++i) into[i].copy_(from.at(i));
                      }));
}

// Runs the CPU's kernel on the same memory.
void run_on_cpu(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const std::size_t count = schema.arguments().size();
  const std::size_t first = stack->size() - count;
  const std::vector<c10::IValue> given(stack->begin() + static_cast<std::ptrdiff_t>(first),
                                       stack->end());
  const auto writes_to = [&](std::size_t i) {
    const c10::AliasInfo* const alias = schema.arguments()[i].alias_info();
    return alias != nullptr && alias->isWrite();
  };
  Operation operation;
  {
    const Lock lock(state().mutex);
    check_broken();
    if (is_recording()) return record_on_cpu(op, stack);
    operation = state().streams.begin(current_stream, schema.name().c_str());
    for (std::size_t i = 0; i < count; ++i) use_all(given[i], operation, writes_to(i));
  }
  if (waits(schema.name(), given)) wait(schema.name(), current_stream);
  for (std::size_t i = 0; i < count; ++i) {
    c10::IValue& value = (*stack)[first + i];
    // An output that is still to get its size may grow.
    const bool is_new = writes_to(i) && value.isTensor() && value.toTensor().is_cuda() &&
                        value.toTensor().numel() == 0;
    value = is_new ? at::empty({0}, value.toTensor().options().device(c10::kCPU))
                   : changed(value, on_cpu);
  }
  std::vector<c10::IValue> seen(stack->begin() + static_cast<std::ptrdiff_t>(first), stack->end());
  op.callBoxed(stack);

  // What was written to is returned itself, in its new size; all else goes to the device.
  for (std::size_t i = 0; i < count; ++i) {
    if (!writes_to(i) || !given[i].isTensor()) continue;
    const at::Tensor& mine = given[i].toTensor();
    const at::Tensor& theirs = seen[i].toTensor();
    if (!mine.defined() || !mine.is_cuda() || mine.sizes() == theirs.sizes()) continue;
    at::native::resize_output(mine, theirs.sizes());
    on_cpu(mine).copy_(theirs);
    use_result(mine, operation);
  }
  const std::size_t results = schema.returns().size();
  const std::size_t first_result = stack->size() - results;
  for (std::size_t r = 0; r < results; ++r) {
    c10::IValue& result = (*stack)[first_result + r];
    const c10::IValue* const same = argument_that_is(schema, r, given);
    if (same != nullptr) {
      result = *same;
    } else {
      result = changed(result, on_device);
      use_result(result, operation);
    }
  }
}

// cuDNN's, of one group: sums in f32, rounded once.
at::Tensor cudnn_convolution_add_relu(const at::Tensor& x, const at::Tensor& weight,
                                      const at::Tensor& z, const std::optional<at::Scalar>& alpha,
                                      const std::optional<at::Tensor>& bias,
                                      c10::IntArrayRef stride, c10::IntArrayRef padding,
                                      c10::IntArrayRef dilation, std::int64_t groups) {
  std::int64_t fault = 0;
  Operation operation;
  {
    const Lock lock(state().mutex);
    check_broken();
    if (!is_recording()) {
      operation = state().streams.begin(current_stream, "aten::cudnn_convolution_relu");
      for (const at::Tensor& input : {x, weight, z, bias.value_or(at::Tensor())}) {
        use(input, operation, /*writes=*/false);
      }
    }
    ++state().counts.fused_convolutions;
    fault = state().faults.fused_convolution;
  }
  TORCH_CHECK(fault != 3, "GET was unable to find an engine to execute this computation");
  TORCH_CHECK(!bias || bias->scalar_type() == x.scalar_type(), "a bias of another type");
  const at::ScalarType wide = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto compute = [=, x = on_cpu(x), weight = on_cpu(weight), z = on_cpu(z),
                        b = on_cpu(bias.value_or(at::Tensor())), stride = stride.vec(),
                        padding = padding.vec(), dilation = dilation.vec()] {
    at::Tensor y = at::conv2d(x.to(wide), weight.to(wide), {}, stride, padding, dilation, groups);
    if (b.defined() && fault != 1) y += b.to(wide).view({1, -1, 1, 1});
    if (z.defined()) y.add_(z.to(wide), alpha.value_or(1));
    if (fault == 2) y.nan_to_num_(0);
    return y.relu_().to(x.scalar_type());
  };
  const at::Tensor y = on_device(compute());
  const Lock lock(state().mutex);
  if (is_recording()) {
    std::vector<Use> uses;
    for (const at::Tensor& input : {x, weight, z, bias.value_or(at::Tensor())}) {
      collect(input, /*writes=*/false, uses);
    }
    collect(y, /*writes=*/true, uses);
    record_step(step_of("aten::cudnn_convolution_relu", std::move(uses),
                        [to = on_cpu(y), compute] { to.copy_(compute()); }));
  } else {
    use_result(y, operation);
  }
  return y;
}

at::Tensor cudnn_convolution_relu(const at::Tensor& x, const at::Tensor& weight,
                                  const std::optional<at::Tensor>& bias, c10::IntArrayRef stride,
                                  c10::IntArrayRef padding, c10::IntArrayRef dilation,
                                  std::int64_t groups) {
  return cudnn_convolution_add_relu(x, weight, {}, std::nullopt, bias, stride, padding, dilation,
                                    groups);
}

at::Tensor empty(c10::IntArrayRef sizes, std::optional<at::ScalarType> type,
                 std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(sizes, &device_memory(),
                                   c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                   type.value_or(at::kFloat), format);
}

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides,
                         std::optional<at::ScalarType> type, std::optional<at::Layout>,
                         std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(sizes, strides, &device_memory(),
                                           c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                           type.value_or(at::kFloat));
}

// Not waited for where it can be: page-locked, whole and of one type, as CUDA's is.
at::Tensor& copy(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  {
    const Lock lock(state().mutex);
    check_broken();
    if (is_recording()) {
      if (self.is_cuda() != source.is_cuda()) refuse_in_capture("a copy from or to the host");
      record_step(step_of("aten::copy_",
                          {{source.const_data_ptr(), false}, {self.const_data_ptr(), true}},
                          [to = on_cpu(self), from = on_cpu(source)] { to.copy_(from); }));
      return self;
    }
    const Operation operation = state().streams.begin(current_stream, "aten::copy_");
    use(source, operation, /*writes=*/false);
    use(self, operation, /*writes=*/true);
    const bool crosses = self.is_cuda() != source.is_cuda();
    const at::Tensor& host = self.is_cuda() ? source : self;
    const bool is_whole = self.is_non_overlapping_and_dense() && self.dtype() == source.dtype() &&
                          self.strides() == source.strides();
    const bool is_late =
        crosses && non_blocking && is_whole && self.numel() > 0 && is_pinned(host.const_data_ptr());
    if (is_late) {
      LateCopy late{
          .host = host.mutable_data_ptr(), .to_device = self.is_cuda(), .operation = operation};
      late.bytes.assign(static_cast<const char*>(source.const_data_ptr()), source.nbytes());
      if (late.to_device) {
        std::memcpy(self.mutable_data_ptr(), late.bytes.data(), late.bytes.size());
      } else {
        std::memset(late.host, kNan, late.bytes.size());
      }
      state().copies.push_back(std::move(late));
      ++state().counts.late_copies;
      return self;
    }
    if (crosses && self.numel() > 0) {
      wait(cat("a copy ", self.is_cuda() ? "to" : "from", " the device"), current_stream);
    }
  }
  on_cpu(self).copy_(on_cpu(source));
  return self;
}

void record_stream(at::Tensor& tensor, c10::Stream stream) {
  device_memory().recordStream(tensor.storage().data_ptr(), stream);
}

// Blocks of a pool that no graph needs any more.
void release_pool(std::int64_t pool) {
  std::vector<char*> unused;
  for (auto& [begin, block] : state().device) {
    if (block.pool != pool) continue;
    block.pool = 0;
    block.home = 0;  // where graphs are launched
    if (std::exchange(block.is_free, false)) unused.push_back(begin);
  }
  for (char* const memory : unused) free_device(memory);
}

}  // namespace

// --- Graphs
// ----------------------------------------------------------------------------------------

std::int64_t new_pool() {
  const Lock lock(state().mutex);
  return ++state().pool_count;
}

void begin_capture(std::int64_t pool) {
  const Lock lock(state().mutex);
  TORCH_CHECK(!state().capture && !state().allocates_to_pool, "a capture is under way");
  TORCH_CHECK(current_stream != 0, "CUDA graphs must be captured on a non-default stream");
  Capture& capture = state().capture.emplace();
  capture.stream = current_stream;
  capture.graph.pool = pool;
  for (const auto& [begin, block] : state().device) {
    if (block.is_free && block.pool == pool) {
      capture.graph.reused.emplace_back(begin, block.bytes);
    } else if (!block.is_free) {
      capture.before.emplace(begin, std::string(begin, block.bytes));
    }
  }
}

// Puts memory back to where nothing was executed.
std::shared_ptr<const Graph> end_capture() {
  const Lock lock(state().mutex);
  TORCH_CHECK(is_recording(), "Capture must end on the same stream it began on.");
  Capture capture = *std::exchange(state().capture, std::nullopt);
  for (const auto& [begin, bytes] : capture.before) {
    const auto found = state().device.find(begin);
    if (found == state().device.end() || found->second.bytes != bytes.size()) continue;
    std::memcpy(begin, bytes.data(), bytes.size());
  }
  for (char* const begin : capture.allocated) std::memset(begin, kNan, state().device[begin].bytes);
  const std::int64_t pool = capture.graph.pool;
  if (capture.is_broken) {
    state().allocates_to_pool = true;
    if (!state().graphs_of_pool.contains(pool)) release_pool(pool);
    TORCH_CHECK(false, "CUDA error: operation failed due to a previous error during capture");
  }
  ++state().graphs_of_pool[pool];
  return {new Graph(std::move(capture.graph)), [pool](const Graph* graph) {
            const Lock again(state().mutex);
            delete graph;
            if (--state().graphs_of_pool[pool] > 0) return;
            state().graphs_of_pool.erase(pool);
            release_pool(pool);
          }};
}

void end_allocation() {
  const Lock lock(state().mutex);
  TORCH_CHECK(std::exchange(state().allocates_to_pool, false), "endAllocateToPool: no such pool");
}

void launch(const Graph& graph) {
  {
    const Lock lock(state().mutex);
    check_broken();
    ++state().counts.graph_launches;
    refuse_in_capture("a graph");
    for (const auto& [begin, bytes] : graph.reused) std::memset(begin, kNan, bytes);
  }
  const at::AutoDispatchBelowADInplaceOrView as_a_kernel;
  is_replaying = true;
  for (const GraphStep& step : graph.steps) step(current_stream);
  is_replaying = false;
}

void reset(const Faults& faults) {
  const Lock lock(state().mutex);
  see_all();
  state().faults = faults;
  state().chance.seed(faults.seed);
  state().counts = {};
  state().violations.clear();
}

Counts counts() {
  const Lock lock(state().mutex);
  return state().counts;
}

std::vector<std::string> violations() {
  const Lock lock(state().mutex);
  see_all();
  if (state().allocates_to_pool) report("allocators were left as within a capture");
  return state().violations;
}

}  // namespace fake_device
}  // namespace retina

TORCH_LIBRARY_IMPL(_, CUDA, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&retina::fake_device::run_on_cpu>());
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  // Whole: the device's parts of a depthwise convolution are in LibTorch's CUDA library alone.
  for (const char* whole : {"convolution", "convolution_backward"}) {
    library.impl(whole,
                 torch::CppFunction::makeFromBoxedFunction<&retina::fake_device::run_on_cpu>());
  }
  // Whole lists, as a GPU takes them.
  for (const char* list : {"_foreach_add_.List", "_foreach_copy_", "_foreach_div_.Tensor",
                           "_foreach_lerp_.Scalar", "_foreach_norm.Scalar"}) {
    library.impl(list,
                 torch::CppFunction::makeFromBoxedFunction<&retina::fake_device::run_on_cpu>());
  }
  library.impl("cudnn_convolution_relu", &retina::fake_device::cudnn_convolution_relu);
  library.impl("cudnn_convolution_add_relu", &retina::fake_device::cudnn_convolution_add_relu);
  library.impl("empty.memory_format", &retina::fake_device::empty);
  library.impl("empty_strided", &retina::fake_device::empty_strided);
  library.impl("copy_", &retina::fake_device::copy);
  library.impl("record_stream", &retina::fake_device::record_stream);
  // Of memory alone, whatever the device.
  library.impl("view", &at::native::view);
  library.impl("view.dtype", &at::native::view_dtype);
  library.impl("as_strided", &at::native::as_strided_tensorimpl);
  library.impl("_reshape_alias", &at::native::_reshape_alias);
  library.impl("unfold", &at::native::unfold);
  library.impl("resize_", &at::native::resize_);
}
