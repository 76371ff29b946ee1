#include "shared/job/rank_program.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

#include "shared/base/error.h"
#include "shared/base/host.h"
#include "shared/base/log.h"
#include "shared/base/program.h"
#include "shared/base/version.h"
#include "shared/watch/rank_guard.h"
#include "shared/watch/watch.h"

namespace retina {
namespace {

// Time for a log that blocks while the process should end.
constexpr unsigned kLogSeconds = 3;
// Time for the launcher to read why the job ends, before other ranks end and the launcher with
// them.
constexpr double kReadSeconds = 0.5;
// Time for rank 0 to report what is wrong with a command line, and for the launcher to end the
// others.
constexpr std::chrono::seconds kRootReports(2);

// Returns true if this rank reports a wrong command line, or a missing Open MPI. Rank 0's end makes
// the launcher end the others; those that outlive it have another command line or lack what rank 0
// has, and the first of their node reports it.
bool reports_start_error(const std::string& name) {
  const int rank = launcher_rank();
  if (rank <= 0) return true;
  const bool is_first = launcher_local_rank() == 0;
  std::this_thread::sleep_for(is_first ? kRootReports : 2 * kRootReports);
  if (is_first) set_log_name(cat(name, "[", rank, "] on ", host_name()));
  return is_first;
}

// Ends the process from the watch thread. The main thread may hold any lock, so this waits for
// nothing: exit handlers and MPI stay out of it, and the launcher ends the remaining processes.
[[noreturn]] void end_process(int code) {
  if (::ftrylockfile(stdout) == 0) ::fflush_unlocked(stdout);
  ::_exit(code);
}

WatchHandler watch_handler() {
  return {.report =
              [](const std::string& message, const std::string& hint) {
                std::signal(SIGALRM, SIG_DFL);
                ::alarm(kLogSeconds);
                log_error(message, "; hint: ", hint);
                wait_until_read(STDERR_FILENO, kReadSeconds);
                ::alarm(0);  // the end may have to wait for the launcher
              },
          .warn = [](const std::string& message) { log_warning(message); },
          .end_launcher =
              [] {
                if (const pid_t launcher = launcher_process(); launcher > 0) {
                  ::kill(launcher, SIGKILL);
                }
              },
          .end = end_process};
}

GuardTerms start_terms(const WatchOptions& options) {
  return {
      .rank = launcher_rank(),
      .limit_s = options.start_limit_s,
      .second_s = options.second_s,
      .what = "MPI has not started on every rank",
      .hint =
          "is a rank stopped, or the network between the nodes blocked? run the same command again",
      .exit_code = exit_code(ErrorKind::kRankFailure)};
}

// Returns the guard for the end, when everything is saved and only the processes still have to end.
GuardTerms finish_terms(const WatchOptions& options, int rank, int code) {
  return {.rank = rank,
          .limit_s = options.finish_limit_s,
          .second_s = options.second_s,
          .what = "the work is done, but MPI has not ended on every rank",
          .hint = "nothing is lost; is a rank stopped, or the network between the nodes blocked?",
          .exit_code = code,
          .ends_launcher = true};
}

}  // namespace

int run_rank_program(const std::string& name, Cli& cli, int argc, const char* const* argv,
                     const std::function<int(Communicator&)>& body,
                     const WatchOptions& watch_options) {
  register_library_version("MPI", mpi_library_version);
  std::optional<RankGuard> guard;
  std::optional<MpiSession> session;
  std::unique_ptr<Watch> watch;
  std::optional<Activity> unwatched;  // of a job without a watch, such as a single rank
  return run_program(
      name,
      [&] {
        try {
          if (cli.parse(argc, argv) == CliOutcome::kDone) return 0;
          if (launched_as_rank()) guard.emplace(start_terms(watch_options), watch_handler());
          session.emplace();
        } catch (const Error& error) {
          if (!reports_start_error(name)) return exit_code(error.kind());
          throw;
        }
        auto communicator = session->make_communicator();
        guard.reset();
        if (!communicator->is_root()) {
          set_log_name(cat(name, "[", communicator->rank(), "]"));
          if (log_level() != LogLevel::kDebug) set_log_level(LogLevel::kWarning);
        }
        watch = Watch::start(*communicator, watch_options, watch_handler());
        if (watch) {
          communicator->report_to(watch->activity(), [&] { watch->await_diagnosis(); });
        } else {
          communicator->report_to(unwatched.emplace(communicator->rank()));
        }
        const int code = body(*communicator);
        flush_results();  // while this rank can still end the job
        // Other ranks that still wait in a collective would wait forever in the next steps.
        if (watch) {
          watch->leave();
          guard.emplace(finish_terms(watch_options, communicator->rank(), code), watch_handler());
        }
        session->finish();
        watch.reset();
        guard.reset();
        return code;
      },
      [&](int code) {
        wait_until_read(STDERR_FILENO, kReadSeconds);
        if (watch) watch->fail(code);
        if (session) session->abort(code);
      });
}

void check_rank_count(int expected, const Communicator& communicator) {
  if (expected == 0 || expected == communicator.size()) return;
  throw Error(ErrorKind::kConfig,
              cat("--expect-ranks ", expected, ": the launcher started ",
                  counted(communicator.size(), "rank")),
              "check the launcher's -np, its host file and the nodes that answered");
}

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

int threads_of_rank(int wanted, const Communicator& communicator) {
  if (wanted > 0) return wanted;
  return std::max(1, usable_cores() / communicator.ranks_on_cores());
}

}  // namespace retina
