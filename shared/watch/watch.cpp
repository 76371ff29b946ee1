#include "shared/watch/watch.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <sstream>
#include <thread>

#include "shared/base/error.h"
#include "shared/base/host.h"
#include "shared/base/scratch.h"
#include "shared/watch/rank_guard.h"
#include "shared/watch/watch_loop.h"

namespace retina {
namespace {

using Seconds = std::chrono::duration<double>;

std::vector<std::string> words(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> result;
  for (std::string word; in >> word;) result.push_back(word);
  return result;
}

std::vector<std::string> exchange_hosts(Communicator& communicator) {
  std::string all;
  for (const std::string& host : communicator.gather(host_name(), 0)) all += host + "\n";
  return words(communicator.broadcast(all, 0));
}

// Removed by the launcher at the job's end; where there is none, an empty file may stay in $TMPDIR.
std::string job_folder() {
  const char* folder = std::getenv("PMIX_SERVER_TMPDIR");
  return folder != nullptr ? folder : default_scratch();
}

}  // namespace

struct Watch::Parts {
  WatchContext context;
  std::unique_ptr<Activity> activity{};
  std::unique_ptr<WatchLoop> loop{};
  std::thread thread{};

  void wake() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto size = ::write(context.wake.get(), &one, sizeof(one));
  }
  void start_thread() {
    thread = quiet_thread([this] { loop->run(); });
  }
};

std::unique_ptr<Watch> Watch::start(Communicator& communicator, const WatchOptions& options,
                                    const WatchHandler& handler) {
  if (communicator.size() == 1) return nullptr;
  const RankGuard guard({.rank = communicator.rank(),
                         .limit_s = options.join_limit_s,
                         .second_s = options.second_s,
                         .what = "the ranks have not found each other",
                         .hint = "is a rank stopped, or the network between the nodes blocked? "
                                 "run the same command again",
                         .exit_code = exit_code(ErrorKind::kRankFailure)},
                        handler);
  // From here on an exception ends the thread that may run by then.
  std::unique_ptr<Watch> watch(new Watch(std::make_unique<Parts>()));
  Parts& parts = *watch->parts_;
  WatchContext& context = parts.context;
  context.options = options;
  context.handler = handler;
  context.rank = communicator.rank();
  context.size = communicator.size();
  if (options.folder.empty()) context.options.folder = job_folder();
  parts.activity = std::make_unique<Activity>(context.rank);
  context.activity = parts.activity.get();
  context.wake = Descriptor(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  context.hosts = exchange_hosts(communicator);

  Listener listener;
  std::string where;
  if (communicator.is_root()) {
    try {
      listener = listen_anywhere();
      std::random_device random;
      context.job = (std::uint64_t{random()} << 32) | random();
      where = cat(context.job, " ", listener.port);
      for (const std::string& address : own_addresses()) where += " " + address;
    } catch (const Error&) {
      where.clear();
    }
  }
  // "token port address ...", empty where there is no socket.
  std::vector<std::string> told = words(communicator.broadcast(where, 0));
  bool joined = told.size() > 2;
  if (joined) {
    const std::uint64_t job = std::stoull(told[0]);
    const auto port = static_cast<std::uint16_t>(std::stoul(told[1]));
    told.erase(told.begin(), told.begin() + 2);
    if (communicator.is_root()) {
      parts.loop = std::make_unique<Hub>(context, std::move(listener.socket));
      parts.start_thread();
    } else {
      context.job = job;
      // On the same node the last one, 127.0.0.1, always answers.
      if (context.hosts.at(static_cast<std::size_t>(context.rank)) == context.hosts.at(0)) {
        std::reverse(told.begin(), told.end());
      }
      auto connection = join_hub(context, told, port);
      joined = connection.has_value();
      if (joined) parts.loop = std::make_unique<Spoke>(context, std::move(*connection));
    }
  }
  const bool all_joined = communicator.all_reduce_max(joined ? 0 : 1) == 0;
  if (!all_joined) {
    if (communicator.is_root()) {
      handler.warn(
          "not every rank can reach rank 0 by TCP: a lost rank may go unnoticed until MPI notices");
    }
    return nullptr;
  }
  context.all_joined = true;
  if (!communicator.is_root()) parts.start_thread();
  return watch;
}

Watch::Watch(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Watch::~Watch() {
  parts_->context.stop = true;
  parts_->wake();
  if (parts_->thread.joinable()) parts_->thread.join();
}

Activity& Watch::activity() {
  return *parts_->activity;
}

void Watch::leave() {
  parts_->activity->leave();
  parts_->context.beat_now = true;
  parts_->wake();
  parts_->context.all_left.wait(false);
}

void Watch::fail(int code) {
  parts_->context.failing = code;
  parts_->wake();
  // The others must know before their connections to this process end.
  for (int i = 0; i < 500 && !parts_->context.failure_sent; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // This error follows from what the diagnosis reports, and the watch thread ends this process
  // soon: with MPI_Abort now, an mpirun that waits for a node that is cut off would end it before
  // it can end that mpirun.
  if (parts_->context.diagnosis_known && !parts_->context.failure_sent) {
    std::this_thread::sleep_for(Seconds(2 * parts_->context.options.launcher_limit_s));
  }
}

void Watch::await_diagnosis() {
  const WatchOptions& options = parts_->context.options;
  std::this_thread::sleep_for(
      Seconds(options.heartbeat_limit_s + options.second_s + 2 * options.period_s));
}

}  // namespace retina
