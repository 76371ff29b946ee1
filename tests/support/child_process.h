// A program that runs beside the test: to be killed, signalled or waited for.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/support/test_folder.h"

namespace retina {

class ChildProcess {
 public:
  // Starts `arguments[0]` in a process group of its own. Without a slash, it is a program of the
  // folder $RETINA_TEST_PROGRAMS, of build/bin, or found in PATH, the first where it is.
  explicit ChildProcess(const std::vector<std::string>& arguments);
  // Kills what still runs.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // Sends `signal` to the process alone, or to its whole group.
  void signal(int signal) const;
  void signal_group(int signal) const;

  // Polls until `condition` holds (true) or the process ended or `seconds` are over (false).
  bool run_until(const std::function<bool()>& condition, double seconds);

  // Waits for the end.
  ProcessResult wait();

 private:
  bool has_ended();
  TestFolder folder_;
  pid_t pid_ = -1;
  bool ended_ = false;
  int status_ = 0;
};

// `mpirun -np RANKS` with what root, containers and few cores need, then `arguments`.
std::vector<std::string> under_mpirun(int ranks, std::vector<std::string> arguments);

}  // namespace retina
