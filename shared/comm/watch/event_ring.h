// The last events of a rank in a memory-mapped file, for whoever asks what a dead rank did last:
// the pages belong to the kernel, so they outlive the process, SIGKILL too. Written without locks
// at about 50 ns an event; read by other processes at any time.
//
// The file: RingHeader, then kEventSlots of Event, little-endian. Event i (counted from 0) lies in
// slot i % kEventSlots and has stamp i + 1 when it is whole, 0 while it is written.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "shared/comm/watch/operation.h"

namespace retina {

inline constexpr std::size_t kEventSlots = 4096;

// Part of the format: never renumber.
enum class EventKind : std::uint8_t {
  kPhaseEnter = 1,
  kCollectiveEnter = 2,
  kCollectiveLeave = 3,
  kStep = 4
};

struct Event {
  std::uint64_t stamp = 0;        // place + 1
  std::uint64_t sequence = 0;     // collectives entered so far
  std::uint64_t operation = 0;    // Operation::hash of the collective, 0 for a phase
  std::int64_t step = 0;          // steps begun, 1 the first
  std::uint64_t bytes = 0;        // of the collective's buffer
  std::int64_t monotonic_ns = 0;  // CLOCK_MONOTONIC: one clock for all ranks of a node
  std::int64_t wall_ns = 0;       // since 1970
  std::int32_t bucket = -1;       // of a collective labelled "bucket N"
  Phase phase = Phase::kStart;    // of the main thread
  EventKind kind = EventKind::kPhaseEnter;
  CollectiveKind collective = CollectiveKind::kBarrier;
  std::array<char, 32> label{};  // Operation::label
};
static_assert(sizeof(Event) == 96, "part of the format");

struct RingHeader {
  std::array<char, 8> magic{};  // "retinaEV"
  std::uint32_t version = 1;
  std::uint32_t slots = kEventSlots;
  std::int32_t rank = 0;
  std::int32_t size = 0;  // ranks of the job
  std::int64_t pid = 0;
  std::uint64_t job = 0;        // drawn by the job, the same on all its ranks
  std::array<char, 88> host{};  // host_name(), ends with a zero
};
static_assert(sizeof(RingHeader) == 128, "part of the format");

// The file of one rank below `folder`.
std::string ring_path(const std::string& folder, std::uint64_t job, int rank);

// The writer's side. Two threads may add at the same time.
class EventRing {
 public:
  // Without a file: events go nowhere.
  EventRing() = default;
  // Creates the file. Where that fails (no space, no memory maps) events go nowhere: what watches
  // the work must not end it.
  EventRing(const std::string& path, const RingHeader& header);
  ~EventRing();
  EventRing(const EventRing&) = delete;
  EventRing& operator=(const EventRing&) = delete;

  bool has_file() const { return slots_ != nullptr; }
  const std::string& path() const { return path_; }
  // Fills in stamp and times.
  void add(Event event);
  // Normal end: nothing to explain, the file goes.
  void remove();

 private:
  std::string path_{};
  Event* slots_ = nullptr;
  void* map_ = nullptr;
  std::atomic<std::uint64_t> next_{0};
};

// What a file holds, oldest first; entries that were being written are left out.
struct RankEvents {
  RingHeader header;
  std::vector<Event> events;
};

// Throws kNoInput, or kData for a file that is none of these.
RankEvents read_ring(const std::string& path);

// Events of all ranks whose files of `job` lie in `folder`, by time. Unreadable files are left out.
struct NodeEvent {
  int rank = 0;
  Event event;
};
std::vector<NodeEvent> merge_rings(const std::string& folder, std::uint64_t job, int size);

// Removes files of ended processes that nobody wrote to for an hour: a job that died left them.
void remove_stale_rings(const std::string& folder);

}  // namespace retina
