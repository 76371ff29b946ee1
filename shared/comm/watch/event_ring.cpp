#include "shared/comm/watch/event_ring.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"

namespace retina {
namespace {

namespace fs = std::filesystem;

constexpr std::array<char, 8> kMagic = {'r', 'e', 't', 'i', 'n', 'a', 'E', 'V'};
constexpr std::size_t kFileBytes = sizeof(RingHeader) + kEventSlots * sizeof(Event);
constexpr char kPrefix[] = "retina-events-";

std::int64_t clock_ns(clockid_t clock) {
  struct timespec time {};
  ::clock_gettime(clock, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

std::atomic_ref<std::uint64_t> stamp_of(Event& event) {
  return std::atomic_ref<std::uint64_t>(event.stamp);
}

}  // namespace

std::string ring_path(const std::string& folder, std::uint64_t job, int rank) {
  return cat(folder, "/", kPrefix, hex64(job), "-", rank);
}

EventRing::EventRing(const std::string& path, const RingHeader& header) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return;
  // Allocated now: a page that finds no space when it is written would be a SIGBUS.
  if (::posix_fallocate(file, 0, kFileBytes) == 0) {
    void* map = ::mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (map != MAP_FAILED) map_ = map;
  }
  ::close(file);
  if (map_ == nullptr) {
    ::unlink(path.c_str());
    return;
  }
  path_ = path;
  RingHeader own = header;
  own.magic = kMagic;
  std::memcpy(map_, &own, sizeof(own));
  slots_ = reinterpret_cast<Event*>(static_cast<char*>(map_) + sizeof(RingHeader));
}

EventRing::~EventRing() {
  if (map_ != nullptr) ::munmap(map_, kFileBytes);
}

void EventRing::add(Event event) {
  if (slots_ == nullptr) return;
  const std::uint64_t place = next_.fetch_add(1, std::memory_order_relaxed);
  Event& slot = slots_[place % kEventSlots];
  // Acquire: none of the writes below may be seen before this one.
  stamp_of(slot).exchange(0, std::memory_order_acq_rel);
  event.monotonic_ns = clock_ns(CLOCK_MONOTONIC);
  event.wall_ns = clock_ns(CLOCK_REALTIME);
  constexpr std::size_t kStampBytes = sizeof(event.stamp);
  std::memcpy(reinterpret_cast<char*>(&slot) + kStampBytes,
              reinterpret_cast<const char*>(&event) + kStampBytes, sizeof(Event) - kStampBytes);
  stamp_of(slot).store(place + 1, std::memory_order_release);
}

void EventRing::remove() {
  if (!path_.empty()) ::unlink(path_.c_str());
  path_.clear();
}

RankEvents read_ring(const std::string& path) {
  const std::string bytes = read_file(path);
  RankEvents result;
  if (bytes.size() != kFileBytes) {
    throw Error(ErrorKind::kData, cat(path, ": not a file of events (got ", bytes.size(),
                                      " bytes, want ", kFileBytes, ")"));
  }
  std::memcpy(&result.header, bytes.data(), sizeof(RingHeader));
  result.header.host.back() = '\0';
  if (result.header.magic != kMagic || result.header.version != 1 ||
      result.header.slots != kEventSlots) {
    throw Error(ErrorKind::kData, cat(path, ": not a file of events of this version"));
  }
  for (std::size_t slot = 0; slot < kEventSlots; ++slot) {
    Event event;
    std::memcpy(&event, bytes.data() + sizeof(RingHeader) + slot * sizeof(Event), sizeof(Event));
    event.label.back() = '\0';
    if (event.stamp != 0 && (event.stamp - 1) % kEventSlots == slot) {
      result.events.push_back(event);
    }
  }
  std::sort(result.events.begin(), result.events.end(),
            [](const Event& a, const Event& b) { return a.stamp < b.stamp; });
  return result;
}

std::vector<NodeEvent> merge_rings(const std::string& folder, std::uint64_t job, int size) {
  std::vector<NodeEvent> all;
  for (int rank = 0; rank < size; ++rank) {
    const std::string path = ring_path(folder, job, rank);
    if (!path_exists(path)) continue;  // a rank of another node
    try {
      for (const Event& event : read_ring(path).events) all.push_back({rank, event});
    } catch (const Error&) {
      continue;
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const NodeEvent& a, const NodeEvent& b) {
    return a.event.monotonic_ns < b.event.monotonic_ns;
  });
  return all;
}

void remove_stale_rings(const std::string& folder) {
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(folder, code)) {
    const std::string path = entry.path().string();
    if (entry.path().filename().string().rfind(kPrefix, 0) != 0) continue;
    const auto age = fs::file_time_type::clock::now() - fs::last_write_time(path, code);
    if (code || age < std::chrono::hours(1)) continue;
    if (path.find("-verdict-") != std::string::npos) {  // spoke.cpp
      ::unlink(path.c_str());
      continue;
    }
    try {
      const pid_t pid = static_cast<pid_t>(read_ring(path).header.pid);
      if (::kill(pid, 0) != 0 && errno == ESRCH) ::unlink(path.c_str());
    } catch (const Error&) {
      continue;
    }
  }
}

}  // namespace retina
