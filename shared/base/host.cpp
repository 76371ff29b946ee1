#include "shared/base/host.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

namespace retina {
namespace {

namespace fs = std::filesystem;

// The quota of the group in `folder` in cores; 0 without one.
double quota_in(const fs::path& folder) {
  double quota = 0, period = 0;
  // "max 100000" without a limit.
  std::ifstream(folder / "cpu.max") >> quota >> period;
  if (quota <= 0 || period <= 0) {
    std::ifstream(folder / "cpu.cfs_quota_us") >> quota;  // -1 without a limit
    std::ifstream(folder / "cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? quota / period : 0;
}

// The smaller of two quotas, where 0 means none.
double smaller(double a, double b) {
  return a <= 0 || b <= 0 ? std::max(a, b) : std::min(a, b);
}

// The smallest quota of `group` below `mount` and of its ancestors.
double quota_up_from(const fs::path& mount, const fs::path& group) {
  double quota = quota_in(mount);
  fs::path folder = mount;
  for (const auto& part : group.relative_path()) {
    folder /= part;
    quota = smaller(quota, quota_in(folder));
  }
  return quota;
}

}  // namespace

double group_quota(const std::string& groups, const std::string& root) {
  double quota = 0;
  std::istringstream lines(groups);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path group = line.substr(second + 1);
    if (controllers.empty()) quota = smaller(quota, quota_up_from(root, group));
    if (("," + controllers + ",").find(",cpu,") == std::string::npos) continue;
    for (const std::string& mount : {controllers, std::string("cpu")}) {
      quota = smaller(quota, quota_up_from(fs::path(root) / mount, group));
    }
  }
  return quota;
}

int usable_cores() {
  static const int cores = [] {
    const int present = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    std::ifstream file("/proc/self/cgroup");
    std::ostringstream groups;
    groups << file.rdbuf();
    const double quota = group_quota(groups.str(), "/sys/fs/cgroup");
    return quota > 0 ? std::clamp(static_cast<int>(quota), 1, present) : present;
  }();
  return cores;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

}  // namespace retina
