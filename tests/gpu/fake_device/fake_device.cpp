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
#include <memory>
#include <mutex>
#include <random>
#include <utility>

#include "shared/base/cat.h"
#include "shared/model/device.h"
#include "tests/gpu/emulation/grid.h"
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

struct Allocation {
  Block block;
  emulation::Memory memory;
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
  std::map<char*, std::unique_ptr<Allocation>> device;
  std::int64_t held_bytes = 0, peak_bytes = 0;
};

State& state() {
  static State* const all = new State;  // tensors of static storage are freed late
  return *all;
}

using Lock = std::lock_guard<std::recursive_mutex>;

thread_local StreamId current_stream = 0;
thread_local std::size_t element_bytes = 1;  // of the tensor that memory is allocated for

bool is_pinned(const void* memory) {
  const char* const at = static_cast<const char*>(memory);
  const auto above = state().pinned.upper_bound(const_cast<char*>(at));
  if (above == state().pinned.begin()) return false;
  const auto& [begin, bytes] = *std::prev(above);
  return at < begin + bytes;
}

// The allocation that has all of it, or nullptr.
Allocation* allocation_of(const void* memory, std::size_t bytes) {
  const char* const at = static_cast<const char*>(memory);
  const auto above = state().device.upper_bound(const_cast<char*>(at));
  if (above == state().device.begin()) return nullptr;
  const auto& [begin, found] = *std::prev(above);
  return at + bytes <= begin + found->block.bytes ? found.get() : nullptr;
}

void report(const std::string& violation) {
  constexpr std::size_t kMost = 100;
  if (!violation.empty() && state().violations.size() < kMost) {
    state().violations.push_back(violation);
  }
}

void use(const at::Tensor& tensor, const Operation& operation, bool writes) {
  if (!tensor.defined() || !tensor.is_cuda() || tensor.numel() == 0) return;
  Allocation* const used = allocation_of(tensor.const_data_ptr(), 1);
  if (used == nullptr) return;
  if (writes) used->memory.set_written();
  report(writes ? state().streams.write(used->block, operation)
                : state().streams.read(used->block, operation));
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

void count_wait(const std::string& who) {
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
  const Block& block = found->second->block;
  report(state().streams.free(block));
  state().held_bytes -= static_cast<std::int64_t>(block.bytes);
  state().device.erase(found);
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
    std::unique_ptr<Allocation> made(
        new Allocation{{.bytes = bytes, .home = current_stream},
                       {emulation::Kind::kDevice, std::max<std::size_t>(bytes, 1),
                        std::exchange(element_bytes, 1)}});
    void* const memory = made->memory.data();
    const bool is_dense = bytes <= emulation::Memory::kSparseBytes;
    if (all.faults.only_blocks && is_dense) std::memset(memory, 0, bytes);
    all.device[static_cast<char*>(memory)] = std::move(made);
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
    if (Allocation* const used = allocation_of(data.get(), 0)) {
      used->block.recorded.insert(stream.id());
    }
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

// The emulated kernel that runs; one at a time does.
Operation kernel;

void begin_kernel(const char* name, const void* stream) {
  const Lock lock(state().mutex);
  kernel = state().streams.begin(reinterpret_cast<StreamId>(stream), name);
  const std::set<std::string>& broken = state().faults.broken_kernels;
  const bool is_broken = broken.contains(name) || broken.contains("all");
  const auto all_but_last = [](const emulation::uint3& block, const emulation::dim3& grid) {
    return block.x + 1 < grid.x || block.y + 1 < grid.y;
  };
  emulation::run_only(is_broken ? emulation::Blocks(all_but_last) : state().faults.only_blocks);
  ++state().counts.kernels;
}

std::string use_in_kernel(const void* address, std::size_t bytes, emulation::Access access,
                          const emulation::Turn& turn) {
  const Lock lock(state().mutex);
  Allocation* const used = allocation_of(address, bytes);
  if (used == nullptr) return "touches memory that no tensor has";
  Block& block = used->block;
  const bool reads = access == emulation::Access::kRead;
  const Operation& known = reads ? block.read[kernel.stream] : block.written;
  if (known.stream != kernel.stream || known.place != kernel.place) {
    report(reads ? state().streams.read(block, kernel) : state().streams.write(block, kernel));
  }
  return used->memory.problem_of(address, bytes, access, turn);
}

struct Registration {
  Registration() {
    emulation::set_memory_owner({.begin = begin_kernel, .problem_of = use_in_kernel});
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
    operation = state().streams.begin(current_stream, schema.name().c_str());
    for (std::size_t i = 0; i < count; ++i) use_all(given[i], operation, writes_to(i));
  }
  if (waits(schema.name(), given)) wait(schema.name(), current_stream);
  for (std::size_t i = 0; i < count; ++i) {
    c10::IValue& value = (*stack)[first + i];
    // An output that is still to get its size may grow.
    const bool is_new = writes_to(i) && value.isTensor() && value.toTensor().is_cuda() &&
                        value.toTensor().sizes() == at::IntArrayRef{0};
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

at::Tensor empty(c10::IntArrayRef sizes, std::optional<at::ScalarType> type,
                 std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
                 std::optional<at::MemoryFormat> format) {
  element_bytes = c10::elementSize(type.value_or(at::kFloat));
  return at::detail::empty_generic(sizes, &device_memory(),
                                   c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                   type.value_or(at::kFloat), format);
}

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides,
                         std::optional<at::ScalarType> type, std::optional<at::Layout>,
                         std::optional<at::Device>, std::optional<bool>) {
  element_bytes = c10::elementSize(type.value_or(at::kFloat));
  return at::detail::empty_strided_generic(sizes, strides, &device_memory(),
                                           c10::DispatchKeySet(c10::DispatchKey::CUDA),
                                           type.value_or(at::kFloat));
}

// Not waited for where it can be: page-locked, whole and of one type, as CUDA's is.
at::Tensor& copy(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  {
    const Lock lock(state().mutex);
    check_broken();
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

}  // namespace

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
