#include "tests/gpu/emulation/grid.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include "shared/base/cat.h"
#include "tests/gpu/emulation/fiber.h"

extern "C" const char __executable_start, _end;  // the linker's

namespace retina::emulation {

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace {

constexpr unsigned kWarp = 32, kMostThreads = 1024, kMostBlocksAcross = 65535;
constexpr std::size_t kMostSharedBytes = 48 << 10;  // of a kernel that asks for no more

MemoryOwner memory_owner = {};

enum class State { kReady, kAtBarrier, kInWarp, kEnded };

struct Thread {
  std::unique_ptr<Fiber> fiber = std::make_unique<Fiber>();
  State state = State::kEnded;
  Place place = {};       // where it waits
  unsigned mask = 0;      // of the lanes that it waits for
  unsigned meetings = 0;  // of its warp, so far
};

// Values brought to a warp's last two meetings: who was at the last may still read them when others
// bring theirs to the next.
struct Warp {
  std::uint64_t brought[2][kWarp] = {};
  unsigned waiting = 0;  // lanes
};

struct SharedMemory {
  std::unique_ptr<Memory> memory;
  std::uint32_t block = 0;  // the first interval of the last block that asked for it
};

// What is kept of a launch while it runs, and from one launch to the next.
struct Grid {
  // Another order in each process, unless the environment repeats one.
  const std::uint64_t seed = [] {
    const char* const text = std::getenv("RETINA_EMULATION_SEED");
    return text == nullptr ? std::random_device()() : std::strtoull(text, nullptr, 10);
  }();
  std::mt19937_64 random{seed};
  Blocks wanted;
  std::string error;
  bool has_error = false;

  const Kernel* kernel = nullptr;
  std::size_t dynamic_bytes = 0;
  Turn turn;
  std::vector<Thread> threads;  // more than a block's are kept for the next launch
  std::vector<unsigned> ready;  // numbers of threads
  std::vector<Warp> warps;
  unsigned thread_count = 0, ended_count = 0;
  unsigned running = 0;
  std::map<const void*, SharedMemory> shared;
  std::size_t shared_bytes = 0;  // of this block
} grid;

// Whether this thread of the host is in a kernel.
thread_local bool runs = false;

// Outlives what asks at a program's end.
std::set<std::string>& launched() {
  static auto* const names = new std::set<std::string>;
  return *names;
}

Thread& self() {
  return grid.threads[grid.running];
}

std::string coordinates(const uint3& at) {
  return cat("(", at.x, ", ", at.y, ", ", at.z, ")");
}

void note_error(const std::string& text) {
  if (grid.has_error) return;
  grid.has_error = true;
  grid.error = cat(grid.kernel->name, ", block ", coordinates(blockIdx), ": ", text,
                   " (RETINA_EMULATION_SEED=", grid.seed, ")");
}

void pause_until_ready(State state, const Place& place) {
  self().state = state;
  self().place = place;
  Fiber::pause();
}

void make_ready(unsigned number) {
  grid.threads[number].state = State::kReady;
  grid.ready.push_back(number);
}

// Chooses one of the threads that can go on, and lets it.
void run_one() {
  std::swap(grid.ready[grid.random() % grid.ready.size()], grid.ready.back());
  grid.running = grid.ready.back();
  grid.ready.pop_back();
  grid.turn.thread = static_cast<std::uint16_t>(grid.running);
  const unsigned number = grid.running;
  threadIdx = {number % blockDim.x, number / blockDim.x % blockDim.y,
               number / (blockDim.x * blockDim.y)};
  runs = true;
  const bool ended = self().fiber->resume();
  runs = false;
  if (ended) {
    self().state = State::kEnded;
    ++grid.ended_count;
  }
}

// Nobody can go on: the barrier opens, if it is that for which all wait.
void open_barrier() {
  const auto waits = [](const Thread& thread) { return thread.state == State::kAtBarrier; };
  const auto begin = grid.threads.begin(), end = begin + grid.thread_count;
  const auto in_warp =
      std::find_if(begin, end, [](const Thread& thread) { return thread.state == State::kInWarp; });
  if (in_warp != end) {
    return note_error(cat("thread ", in_warp - begin, " waits at line ", in_warp->place.line,
                          " for lanes of its warp that never come"));
  }
  const Place place = std::find_if(begin, end, waits)->place;
  if (grid.ended_count > 0) {
    return note_error(cat("a barrier, line ", place.line, ", that only some threads reach"));
  }
  for (unsigned i = 0; i < grid.thread_count; ++i) {
    if (!(grid.threads[i].place == place)) {
      return note_error(cat("threads wait at different barriers, lines ", place.line, " and ",
                            grid.threads[i].place.line));
    }
    make_ready(i);
  }
  ++grid.turn.interval;
}

void run_block() {
  grid.turn.first_of_block = ++grid.turn.interval;
  grid.shared_bytes = 0;
  grid.ended_count = 0;
  grid.ready.clear();
  grid.warps.assign((grid.thread_count + kWarp - 1) / kWarp, {});
  for (unsigned i = 0; i < grid.thread_count; ++i) {
    grid.threads[i].fiber->start([] { grid.kernel->run(grid.kernel->arguments); });
    grid.threads[i].meetings = 0;
    make_ready(i);
  }
  while (grid.ended_count < grid.thread_count && !grid.has_error) {
    if (grid.ready.empty()) {
      open_barrier();
    } else {
      run_one();
    }
  }
}

bool is_possible(const dim3& blocks, const dim3& block, std::size_t shared_bytes) {
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  return blocks.x > 0 && blocks.x <= 0x7FFFFFFF && blocks.y > 0 && blocks.y <= kMostBlocksAcross &&
         blocks.z > 0 && blocks.z <= kMostBlocksAcross && threads > 0 && threads <= kMostThreads &&
         shared_bytes <= kMostSharedBytes;
}

bool is_argument(const void* address) {
  const auto* const begin = static_cast<const char*>(grid.kernel->arguments);
  return address >= begin && address < begin + grid.kernel->argument_bytes;
}

// Tables of constants lie in the program itself, and so do threadIdx and the like.
bool is_constant(const void* address) {
  return address >= &__executable_start && address < &_end;
}

std::vector<uint3> blocks_in_random_order(const dim3& blocks) {
  std::vector<uint3> order;
  for (unsigned z = 0; z < blocks.z; ++z) {
    for (unsigned y = 0; y < blocks.y; ++y) {
      for (unsigned x = 0; x < blocks.x; ++x) {
        if (!grid.wanted || grid.wanted({x, y, z}, blocks)) order.push_back({x, y, z});
      }
    }
  }
  std::shuffle(order.begin(), order.end(), grid.random);
  return order;
}

}  // namespace

void run_only(Blocks wanted) {
  grid.wanted = std::move(wanted);
}

const char* take_error() {
  const bool had_error = grid.has_error;
  grid.has_error = false;
  return had_error ? grid.error.c_str() : nullptr;
}

void launch(const Kernel& kernel, const dim3& blocks, const dim3& block, std::size_t shared_bytes) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  if (grid.has_error) return;
  grid.kernel = &kernel;
  memory_owner.begin(kernel.name, kernel.stream);
  launched().insert(kernel.name);
  blockIdx = {};
  if (!is_possible(blocks, block, shared_bytes)) {
    return note_error(cat("impossible sizes, grid ", coordinates({blocks.x, blocks.y, blocks.z}),
                          ", block ", coordinates({block.x, block.y, block.z})));
  }
  gridDim = blocks;
  blockDim = block;
  grid.dynamic_bytes = shared_bytes;
  grid.thread_count = block.x * block.y * block.z;
  if (grid.threads.size() < grid.thread_count) grid.threads.resize(grid.thread_count);
  grid.turn.first_of_launch = ++grid.turn.interval;
  grid.turn.has_all_blocks = grid.wanted == nullptr;
  for (const uint3& index : blocks_in_random_order(blocks)) {
    blockIdx = index;
    if (!grid.has_error) run_block();
  }
  grid.shared.clear();
}

const std::set<std::string>& launched_kernels() {
  return launched();
}

void fail(const std::string& text) {
  note_error(cat("thread ", coordinates(threadIdx), " ", text));
  for (;;) Fiber::pause();
}

void wait_for_block(const Place& place) {
  pause_until_ready(State::kAtBarrier, place);
}

unsigned lane() {
  return grid.running % kWarp;
}

namespace {

// Waits for the lanes of `mask`; what each of them brought.
const std::uint64_t* wait_for_warp(unsigned mask, std::uint64_t brought, const Place& place) {
  if ((mask >> lane() & 1) == 0) fail("meets its warp with a mask that does not name it");
  Warp& warp = grid.warps[grid.running / kWarp];
  std::uint64_t* const values = warp.brought[self().meetings++ % 2];
  values[lane()] = brought;
  self().state = State::kInWarp;
  self().place = place;
  self().mask = mask;
  warp.waiting |= 1U << lane();
  if ((warp.waiting & mask) == mask) {  // the last one
    warp.waiting &= ~mask;
    for (unsigned other = 0; other < kWarp; ++other) {
      if ((mask >> other & 1) == 0) continue;
      const unsigned number = grid.running - lane() + other;
      const Thread& thread = grid.threads[number];
      if (!(thread.place == place) || thread.mask != mask || thread.meetings != self().meetings) {
        fail(cat("meets lane ", other, " of its warp at another place"));
      }
      make_ready(number);
    }
  }
  Fiber::pause();
  return values;
}

}  // namespace

std::uint64_t exchange(unsigned mask, std::uint64_t brought, unsigned from, const Place& place) {
  if (from >= kWarp || (mask >> from & 1) == 0) fail(cat("asks lane ", from, " of its warp"));
  return wait_for_warp(mask, brought, place)[from];
}

unsigned ballot(unsigned mask, bool holds, const Place& place) {
  const std::uint64_t* const brought = wait_for_warp(mask, holds, place);
  unsigned lanes = 0;
  for (unsigned other = 0; other < kWarp; ++other) {
    if ((mask >> other & 1) != 0 && brought[other] != 0) lanes |= 1U << other;
  }
  return lanes;
}

void* shared_memory_at(const void* place, std::size_t bytes, std::size_t element_bytes) {
  SharedMemory& shared = grid.shared[place];
  if (shared.memory == nullptr) {
    shared.memory = std::make_unique<Memory>(Kind::kShared, bytes, element_bytes);
  }
  if (shared.block != grid.turn.first_of_block) {
    shared.block = grid.turn.first_of_block;
    shared.memory->forget_values();
    grid.shared_bytes += bytes;
    if (grid.shared_bytes > kMostSharedBytes) fail("takes more shared memory than a block has");
  }
  return shared.memory->data();
}

void* dynamic_shared_memory_of(std::size_t element_bytes) {
  return shared_memory_at(&grid.dynamic_bytes, grid.dynamic_bytes, element_bytes);
}

void set_memory_owner(const MemoryOwner& owner) {
  memory_owner = owner;
}

void check_access(const void* address, std::size_t bytes, Access access) {
  if (!runs || self().fiber->holds(address)) return;
  if (access == Access::kRead && (is_argument(address) || is_constant(address))) return;
  const auto shared = std::find_if(grid.shared.begin(), grid.shared.end(), [&](const auto& one) {
    return one.second.memory->holds(address);
  });
  const std::string problem =
      shared != grid.shared.end()
          ? shared->second.memory->problem_of(address, bytes, access, grid.turn)
          : memory_owner.problem_of(address, bytes, access, grid.turn);
  if (!problem.empty()) fail(problem);
}

}  // namespace retina::emulation
