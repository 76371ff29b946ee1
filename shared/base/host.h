// The machine that this process runs on: its name, and how many threads are worth starting on it.
#pragma once

#include <array>
#include <string>
#include <vector>

namespace retina {

// Returns this machine's name, as it stands in the launcher's host file.
std::string host_name();

// Returns 1 for each core of this process's CPU affinity (`taskset`, `docker run --cpuset-cpus`,
// Slurm), by its number, and 0 for others; 1 for all of the machine's where it cannot be read.
std::array<int, 1024> allowed_cores();

// Returns the number of cores that this process may keep busy, at least 1: the allowed ones, and no
// more than its control group's quota (`docker run --cpus`, a Kubernetes limit), rounded down: more
// threads would be throttled together for most of each period.
int usable_cores();

// Returns this process's control groups: the text of /proc/self/cgroup, "4:cpu:/a" or "0::/a" a
// line.
std::string own_groups();
// Mount point of the file systems of control groups.
inline constexpr const char* kGroupRoot = "/sys/fs/cgroup";

// Returns the folders that may hold limits of `controller` ("cpu", "memory") for the control groups
// in `groups`, own_groups(), and for their ancestors, those of versions 1 and 2, whether they exist
// or not. `root` is the mount point. A container sees its own group as that root and may not see
// the path, so the root counts too.
std::vector<std::string> group_folders(const std::string& groups, const std::string& controller,
                                       const std::string& root);

// Returns the smallest quota of these groups in cores; 0 without one: cpu.max of version 2,
// cpu/cpu.cfs_quota_us of version 1 (Linux, Documentation/admin-guide/cgroup-v2.rst;
// Documentation/scheduler/sched-bwc.rst).
double group_quota(const std::string& groups, const std::string& root);

}  // namespace retina
