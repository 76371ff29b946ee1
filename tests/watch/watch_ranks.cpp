// A job of the shape of a training, steps of phases and collectives, in which one rank fails on
// demand: what faults.py runs under mpirun. Prints "fault SECONDS" (since 1970) when the fault
// begins and "done" on rank 0 at a normal end.
#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <thread>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/signals.h"
#include "shared/comm/activity.h"
#include "shared/job/rank_program.h"

namespace {

using retina::Phase;

// For the other ranks to be in a collective when all stand still.
constexpr double kFreezeAfterS = 0.3;

struct Options {
  std::int64_t steps = 20;
  int buckets = 3;
  std::int64_t bucket_count = 20000;  // f32 in bucket 0; bucket b has (b + 1) times as many
  double phase_ms = 5;
  std::string fault = "none";
  int victim = 1;
  std::int64_t fault_step = 5;
  std::string fault_phase = "forward";
  int fault_bucket = 1;
  double delay_ms = 0;                               // into the phase
  double duration_s = 1;                             // of a pause, of being slow
  retina::WatchOptions watch{.stall_timeout_s = 5};  // a test does not wait for a minute
};

void sleep_ms(double duration) {
  std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(duration));
}

void say_fault() {
  const double now =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  const std::string line = retina::cat("fault ", retina::fixed(now, 3), "\n");
  [[maybe_unused]] const auto size = ::write(STDOUT_FILENO, line.data(), line.size());
}

// Before MPI starts the options are not read yet.
void stop_before_mpi(const char* victim) {
  if (victim == nullptr || std::atoi(victim) != retina::launcher_rank()) return;
  say_fault();
  ::raise(SIGSTOP);
}

int stop_now(MPI_Comm, int, void*, void*) {
  say_fault();
  return ::raise(SIGSTOP);
}

// MPI_Finalize begins with the attributes of MPI_COMM_SELF.
void stop_in_finalize() {
  int key = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, stop_now, &key, nullptr);
  MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr);
}

class Job {
 public:
  Job(const Options& options, retina::Communicator& ranks) : options_(options), ranks_(ranks) {}

  int run() {
    if (options_.fault == "stop-in-finalize" && ranks_.rank() == options_.victim) {
      stop_in_finalize();
    }
    for (std::int64_t step = 1; step <= options_.steps; ++step) {
      faulty_ = ranks_.rank() == options_.victim && step == options_.fault_step;
      if (ranks_.activity() != nullptr) ranks_.activity()->set_step(step);
      // All ranks stand still, the others while they wait for the victim.
      if (options_.fault == "freeze" && step == options_.fault_step) pause(kFreezeAfterS);
      phase(Phase::kDataWait);
      phase(Phase::kForward);
      {
        const retina::PhaseScope backward(ranks_.activity(), Phase::kBackward);
        strike(Phase::kBackward);
        if (left_) return options_.fault == "leave" ? 0 : 1;
        reduce();
      }
      phase(Phase::kUpdate);
      if (step % 4 == 0) phase(Phase::kCheckpointWrite);
      if (left_) return options_.fault == "leave" ? 0 : 1;
      if (step == 1 && ranks_.is_root()) std::cout << "running" << std::endl;
    }
    if (ranks_.is_root()) std::cout << "done" << std::endl;
    return 0;
  }

 private:
  void phase(Phase phase) {
    const retina::PhaseScope scope(ranks_.activity(), phase);
    if (!left_) strike(phase);
    sleep_ms(options_.phase_ms);
  }

  void strike(Phase phase) {
    if (!faulty_ || options_.fault_phase != retina::phase_name(phase)) return;
    const std::string& fault = options_.fault;
    if (fault == "none" || fault == "swap" || fault == "size" || fault == "stop-in-finalize") {
      return;
    }
    sleep_ms(options_.delay_ms);
    say_fault();
    if (fault == "kill") ::raise(SIGKILL);
    if (fault == "stop") ::raise(SIGSTOP);
    if (fault == "pause") pause(0);
    if (fault == "freeze") sleep_ms(kFreezeAfterS * 2e3);
    if (fault == "segv") ::raise(SIGSEGV);
    if (fault == "exit0") ::_exit(0);
    if (fault == "exit1") ::_exit(1);
    if (fault == "slow") sleep_ms(options_.duration_s * 1e3);
    if (fault == "full-disk") write_to_full_disk();
    left_ = fault == "leave" || fault == "leave1";
  }

  static void write_to_full_disk() {
    const int file = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
    if (::write(file, "x", 1) < 0) {
      throw retina::Error(retina::ErrorKind::kIo, retina::cat("checkpoint: ", std::strerror(errno)),
                          "free some space");
    }
  }

  // Stopped and continued by a child: the whole process stands still.
  void pause(double after_s) const {
    const pid_t own = ::getpid();
    if (::fork() == 0) {
      if (after_s > 0) {
        ::usleep(static_cast<useconds_t>(after_s * 1e6));
        ::kill(own, SIGSTOP);
      }
      ::usleep(static_cast<useconds_t>(options_.duration_s * 1e6));
      ::kill(own, SIGCONT);
      ::_exit(0);
    }
    if (after_s <= 0) ::raise(SIGSTOP);
  }

  void reduce() {
    std::vector<int> order;
    for (int bucket = 0; bucket < options_.buckets; ++bucket) order.push_back(bucket);
    const bool wrong = faulty_ && (options_.fault == "swap" || options_.fault == "size");
    if (wrong) say_fault();
    if (wrong && options_.fault == "swap") {
      const auto place = static_cast<std::size_t>(options_.fault_bucket);
      std::swap(order.at(place), order.at((place + 1) % order.size()));
    }
    for (const int bucket : order) {
      auto count = static_cast<std::size_t>(options_.bucket_count * (bucket + 1));
      if (wrong && options_.fault == "size" && bucket == options_.fault_bucket) count /= 2;
      std::vector<float> gradients(count, 1.0F);
      ranks_.label(retina::cat("bucket ", bucket));
      ranks_.all_reduce(gradients.data(), count, retina::ElementType::kFloat32,
                        retina::ReduceOp::kSum);
    }
  }

  const Options& options_;
  retina::Communicator& ranks_;
  bool faulty_ = false, left_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  stop_before_mpi(std::getenv("WATCH_RANKS_STOP_BEFORE_MPI"));
  Options options;
  retina::Cli cli("watch-ranks", "watch_ranks [OPTIONS]", "A job that fails on demand.");
  cli.option("steps", options.steps, "N", "steps");
  cli.option("buckets", options.buckets, "N", "collectives a step");
  cli.option("bucket-count", options.bucket_count, "N", "f32 in the first");
  cli.option("phase-ms", options.phase_ms, "MS", "length of a phase");
  cli.option("fault", options.fault, "KIND", "what happens");
  cli.option("victim", options.victim, "RANK", "to whom");
  cli.option("fault-step", options.fault_step, "STEP", "when");
  cli.option("fault-phase", options.fault_phase, "PHASE", "where");
  cli.option("fault-bucket", options.fault_bucket, "N", "where in the collectives");
  cli.option("delay-ms", options.delay_ms, "MS", "how far into the phase");
  cli.option("duration", options.duration_s, "S", "for how long");
  cli.option("stall-timeout", options.watch.stall_timeout_s, "S", "limit");
  cli.option("straggler-warning", options.watch.straggler_warning_s, "S", "limit");
  cli.option("start-limit", options.watch.start_limit_s, "S", "limit");
  cli.option("finish-limit", options.watch.finish_limit_s, "S", "limit");
  return retina::run_rank_program(
      "watch-ranks", cli, argc, argv,
      [&](retina::Communicator& ranks) {
        retina::install_stop_signals();
        return Job(options, ranks).run();
      },
      options.watch);
}
