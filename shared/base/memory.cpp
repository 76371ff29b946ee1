#include "shared/base/memory.h"

#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <new>
#include <stdexcept>

#include "shared/base/cat.h"
#include "shared/base/host.h"
#include "shared/base/printable.h"

// Exists in programs that allocate with tcmalloc.
extern "C" void MallocExtension_ReleaseFreeMemory() __attribute__((weak));

namespace retina {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOwnStatus = "/proc/self/status";
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

// Returns the number after `key` in a file of "KEY NUMBER" or "KEY: NUMBER kB" lines; nothing
// without it.
std::optional<std::int64_t> number_of(const fs::path& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    if (std::int64_t value = 0; word == key && file >> value) return value;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

// Returns the number that is the whole content of a file; nothing for "max" or if there is none.
std::optional<std::int64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  return file >> value ? std::optional(value) : std::nullopt;
}

std::optional<std::int64_t> free_in_group(const fs::path& folder) {
  const bool is_v2 = fs::exists(folder / "memory.max");
  const auto limit = number_in(folder / (is_v2 ? "memory.max" : "memory.limit_in_bytes"));
  const auto used = number_in(folder / (is_v2 ? "memory.current" : "memory.usage_in_bytes"));
  if (!limit || !used) return std::nullopt;
  const std::string whole = is_v2 ? "" : "total_";  // version 1: with its descendants
  std::int64_t cached = 0;
  for (const char* kind : {"inactive_file", "active_file"}) {
    cached += number_of(folder / "memory.stat", whole + kind).value_or(0);
  }
  return *limit - std::max<std::int64_t>(0, *used - cached);
}

// Returns the bytes left below a limit of this process alone; `used_key` of /proc/self/status
// counts against it.
std::optional<std::int64_t> free_below(decltype(RLIMIT_AS) resource, const char* used_key) {
  struct rlimit limit {};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur > rlim_t{kMost}) return std::nullopt;
  return static_cast<std::int64_t>(limit.rlim_cur) -
         number_of(kOwnStatus, used_key).value_or(0) * 1024;
}

}  // namespace

FreeMemory free_memory(int process_count, const MemoryFiles& files) {
  FreeMemory least{.bytes = kMost};
  const auto take = [&](std::optional<std::int64_t> bytes, const char* limit) {
    if (!bytes || *bytes >= least.bytes) return;
    least = {.bytes = std::max<std::int64_t>(0, *bytes), .limit = limit};
  };
  const auto shared = [&](std::optional<std::int64_t> bytes) {
    if (bytes) *bytes /= process_count;
    return bytes;
  };
  const auto available_kib = number_of(files.machine, "MemAvailable:");
  if (available_kib) take(shared(*available_kib * 1024), kThisMachine);
  for (const std::string& folder : group_folders(files.groups, "memory", files.group_root)) {
    take(shared(free_in_group(folder)), "the control group");
  }
  take(free_below(RLIMIT_AS, "VmSize:"), "ulimit -v");
  take(free_below(RLIMIT_DATA, "VmData:"), "ulimit -d");
  return least;
}

FreeMemory free_memory(int process_count) {
  return free_memory(process_count, {.groups = own_groups(), .group_root = kGroupRoot});
}

std::int64_t resident_bytes() {
  return number_of(kOwnStatus, "VmRSS:").value_or(0) * 1024;
}

void release_freed_memory() {
  if (MallocExtension_ReleaseFreeMemory != nullptr) {
    MallocExtension_ReleaseFreeMemory();
  } else {
    ::malloc_trim(0);
  }
}

void use_huge_pages(void* begin, std::size_t size_bytes) {
  constexpr std::uintptr_t kHugePage = std::uintptr_t{2} << 20;
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::uintptr_t first = (address + kHugePage - 1) / kHugePage * kHugePage;
  const std::uintptr_t last = (address + size_bytes) / kHugePage * kHugePage;
  if (first >= last) return;
  // A refusal changes nothing: small pages are used.
  ::madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

std::optional<std::string> out_of_memory(const std::exception& error) {
  // length_error: a size that exceeds any memory.
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
      dynamic_cast<const std::length_error*>(&error) != nullptr) {
    return "out of memory";
  }
  // Messages of LibTorch, CUDA, cuBLAS, cuDNN and oneDNN, whose exceptions have no common type.
  // oneDNN's primitives are compiled, and fail for no other reason in networks that have run.
  const std::string text = error.what(), line = text.substr(0, text.find('\n'));
  for (const char* words : {"out of memory", "ALLOC_FAILED", "can't allocate memory",
                            "could not create a primitive", "could not execute a primitive"}) {
    if (line.find(words) == std::string::npos) continue;
    return cat("out of memory (", library_reason(text), ")");
  }
  return std::nullopt;
}

}  // namespace retina
