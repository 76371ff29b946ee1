#include "shared/base/host.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <sstream>
#include <thread>

// Of OpenMP, where the program has it. With OMP_PROC_BIND it has bound this thread to a core.
extern "C" [[gnu::weak]] int omp_get_num_procs();

namespace retina {
namespace {

namespace fs = std::filesystem;

// Returns the quota of the group in `folder` in cores; 0 without one.
double quota_in(const fs::path& folder) {
  double quota = 0, period = 0;
  // The file holds "max 100000" without a limit.
  std::ifstream(folder / "cpu.max") >> quota >> period;
  if (quota <= 0 || period <= 0) {
    std::ifstream(folder / "cpu.cfs_quota_us") >> quota;  // -1 without a limit
    std::ifstream(folder / "cpu.cfs_period_us") >> period;
  }
  return quota > 0 && period > 0 ? quota / period : 0;
}

}  // namespace

std::vector<std::string> group_folders(const std::string& groups, const std::string& controller,
                                       const std::string& root) {
  std::vector<std::string> folders;
  const auto add = [&](const fs::path& mount, const fs::path& group) {
    fs::path folder = mount;
    folders.push_back(folder.string());
    for (const auto& part : group.relative_path()) folders.push_back((folder /= part).string());
  };
  std::istringstream lines(groups);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path group = line.substr(second + 1);
    if (controllers.empty()) add(root, group);
    if (("," + controllers + ",").find("," + controller + ",") == std::string::npos) continue;
    add(fs::path(root) / controllers, group);
    if (controllers != controller) add(fs::path(root) / controller, group);
  }
  return folders;
}

double group_quota(const std::string& groups, const std::string& root) {
  double quota = 0;
  for (const std::string& folder : group_folders(groups, "cpu", root)) {
    const double own = quota_in(folder);
    if (own > 0 && (quota == 0 || own < quota)) quota = own;
  }
  return quota;
}

std::string own_groups() {
  std::ifstream file("/proc/self/cgroup");
  std::ostringstream groups;
  groups << file.rdbuf();
  return groups.str();
}

std::array<int, 1024> allowed_cores() {
  std::array<int, 1024> allowed{};
  cpu_set_t set;
  const bool is_known = ::sched_getaffinity(0, sizeof set, &set) == 0;
  for (unsigned i = 0; i < allowed.size(); ++i) {
    allowed[i] = is_known ? CPU_ISSET(i, &set) : i < std::thread::hardware_concurrency();
  }
  return allowed;
}

int usable_cores() {
  static const int cores = [] {
    const int of_openmp = omp_get_num_procs == nullptr ? 1 : omp_get_num_procs();
    const auto own = allowed_cores();
    const int present = std::max(std::accumulate(own.begin(), own.end(), 0), of_openmp);
    const double quota = group_quota(own_groups(), kGroupRoot);
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
