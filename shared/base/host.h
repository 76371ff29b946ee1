// The machine that this process runs on: its name, and how many threads are worth starting there.
#pragma once

#include <string>

namespace retina {

// This machine's name, as the launcher's host file has it.
std::string host_name();

// Cores that this process may keep busy, at least 1: the machine's, minus those outside its CPU
// affinity, and no more than its control group's quota (`docker run --cpus`, a Kubernetes limit),
// rounded down: more threads would be throttled together for most of each period.
int usable_cores();

// The smallest quota of the control groups of `groups` (the text of /proc/self/cgroup, "4:cpu:/a"
// or "0::/a" a line) and of their ancestors, in cores; 0 without one. `root` is where their file
// systems are mounted: cpu.max of version 2, cpu/cpu.cfs_quota_us of version 1 (Linux,
// Documentation/admin-guide/cgroup-v2.rst; Documentation/scheduler/sched-bwc.rst). A container sees
// its own group as that root and may not see the path, so the root counts too.
double group_quota(const std::string& groups, const std::string& root);

}  // namespace retina
