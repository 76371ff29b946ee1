#include "tests/support/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "shared/base/error.h"
#include "shared/base/file.h"

namespace retina {
namespace {

namespace fs = std::filesystem;

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* const first = std::getenv("RETINA_TEST_PROGRAMS");
  for (const fs::path folder : {first == nullptr ? "" : first, RETINA_BIN_DIR}) {
    if (!folder.empty() && fs::exists(folder / name)) return folder / name;
  }
  return name;
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& arguments) {
  const std::string program = find_program(arguments.at(0));
  std::vector<char*> argv;
  for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const std::string out = folder_ / "out", err = folder_ / "err";
  pid_ = ::fork();
  RETINA_CHECK(pid_ >= 0);
  if (pid_ == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // a test that is killed takes mpirun and its ranks along
    ::dup2(::open("/dev/null", O_RDONLY), 0);
    ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT, 0600), 1);
    ::dup2(::open(err.c_str(), O_WRONLY | O_CREAT, 0600), 2);
    ::execvp(program.c_str(), argv.data());
    ::_exit(127);
  }
  ::setpgid(pid_, pid_);
}

ChildProcess::~ChildProcess() {
  if (has_ended()) return;
  signal_group(SIGKILL);
  ::waitpid(pid_, &status_, 0);
}

void ChildProcess::signal(int signal) const {
  ::kill(pid_, signal);
}

void ChildProcess::signal_group(int signal) const {
  ::kill(-pid_, signal);
}

bool ChildProcess::has_ended() {
  if (!ended_) ended_ = ::waitpid(pid_, &status_, WNOHANG) == pid_;
  return ended_;
}

bool ChildProcess::run_until(const std::function<bool()>& condition, double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!has_ended() && std::chrono::steady_clock::now() < end) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

ProcessResult ChildProcess::wait() {
  if (!ended_) ended_ = ::waitpid(pid_, &status_, 0) == pid_;
  return {.exit_code = WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_),
          .out = path_exists(folder_ / "out") ? read_file(folder_ / "out") : "",
          .err = path_exists(folder_ / "err") ? read_file(folder_ / "err") : ""};
}

ProcessResult run_process(const std::vector<std::string>& arguments) {
  return ChildProcess(arguments).wait();
}

ProcessResult run_without_streams(const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {"sh", "-c", "exec \"$0\" \"$@\" <&- >&- 2>&-",
                                  find_program(arguments.at(0))};
  all.insert(all.end(), arguments.begin() + 1, arguments.end());
  return run_process(all);
}

std::vector<std::string> under_mpirun(int ranks, std::vector<std::string> arguments) {
  // Containers forbid the single-copy system call; root needs both confirmations.
  ::setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 1);
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  std::vector<std::string> all = {"mpirun",
                                  "-np",
                                  std::to_string(ranks),
                                  "--oversubscribe",
                                  "--bind-to",
                                  "none",
                                  "--mca",
                                  "mpi_yield_when_idle",
                                  "1"};
  arguments.at(0) = find_program(arguments.at(0));
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

}  // namespace retina
