#include "shared/job/launcher_process.h"

#include <unistd.h>

#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

namespace retina {

pid_t launcher_process(const std::string& proc) {
  static const std::set<std::string> kNames = {"mpirun", "mpiexec", "orterun", "orted"};
  pid_t pid = ::getpid();
  while (pid > 1) {
    // "PID (NAME) STATE PARENT ...": a name may hold anything, also brackets.
    std::ifstream file(proc + "/" + std::to_string(pid) + "/stat");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const std::size_t open = text.find('('), close = text.rfind(')');
    if (open == std::string::npos || close == std::string::npos || close < open) return 0;
    if (kNames.count(text.substr(open + 1, close - open - 1)) != 0) return pid;
    std::istringstream rest(text.substr(close + 1));
    std::string state;
    pid_t parent = 0;
    if (!(rest >> state >> parent) || parent == pid) return 0;
    pid = parent;
  }
  return 0;
}

}  // namespace retina
