// Memory that this process can still get, how it gets and gives back much of it, and the errors
// that mean it ran out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

namespace retina {

inline constexpr const char* kThisMachine = "this machine";  // a limit

struct FreeMemory {
  std::int64_t bytes = 0;  // at least 0
  std::string limit = {};  // whose limit: kThisMachine, "the control group", "ulimit -v", ...
};

// Sources of the numbers; tests have their own.
struct MemoryFiles {
  std::string groups;                     // own_groups()
  std::string group_root;                 // kGroupRoot
  std::string machine = "/proc/meminfo";  // MemAvailable
};

// Returns the least of what is free on the machine (without page cache that can go), in each
// control group of this process and its ancestors (memory.max of version 2, memory.limit_in_bytes
// of version 1; their page cache counts as free too), each divided by the `process_count` processes
// that share it, and below this process's own limits of address space and data (RLIMIT_AS,
// RLIMIT_DATA).
FreeMemory free_memory(int process_count, const MemoryFiles& files);
FreeMemory free_memory(int process_count);

// Returns the memory that this process has in RAM now.
std::int64_t resident_bytes();

// Merges freed memory into large blocks again, as far as the allocator can, and gives it back to
// the system: large blocks may then fit where small ones were.
void release_freed_memory();

// Hints to the kernel that this memory is about to be written for the first time and may have large
// pages: making a small page costs more time than filling it.
void use_huge_pages(void* begin, std::size_t size_bytes);

// Gives the hint for all memory that `reserve` has given to the vector.
template <class T>
void use_huge_pages(std::vector<T>& storage) {
  use_huge_pages(storage.data(), storage.capacity() * sizeof(T));
}

// Returns "out of memory" and the library's reason if `error` says that memory of the machine or of
// a GPU ran out; else nothing.
std::optional<std::string> out_of_memory(const std::exception& error);

}  // namespace retina
