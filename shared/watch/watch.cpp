#include "shared/watch/watch.h"

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <sstream>
#include <thread>

#include "shared/base/error.h"
#include "shared/base/host.h"
#include "shared/base/output.h"
#include "shared/watch/rank_guard.h"
#include "shared/watch/watch_loop.h"

namespace retina {
namespace {

using Seconds = std::chrono::duration<double>;

// Open files of rank 0 besides connections: shards, logs, MPI.
constexpr int kOtherFiles = 128;

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

// Returns a folder that the launcher removes at the job's end; without one, an empty file may stay
// in $TMPDIR.
std::string job_folder() {
  const char* folder = std::getenv("PMIX_SERVER_TMPDIR");
  return folder != nullptr ? folder : default_scratch();
}

// Addresses and token of the hub, as rank 0 sends them to the others.
struct Endpoint {
  std::uint64_t job = 0;
  std::uint16_t port = 0;
  std::vector<std::string> addresses{};  // empty: there is no socket
};

// Throws if rank 0 cannot open a connection to every other rank. The program has raised its limit
// as far as it may.
void check_open_files(int ranks) {
  struct rlimit limit {};
  const auto needed = static_cast<rlim_t>(ranks + kOtherFiles);
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return;
  throw Error(ErrorKind::kUnavailable,
              cat("rank 0 may open ", limit.rlim_cur, " files, to watch ", ranks,
                  " ranks it needs ", needed),
              "raise its hard limit: `ulimit -Hn`");
}

// Returns the hub's endpoint on every rank; rank 0 fills `listener`. Collective.
Endpoint exchange_endpoint(Communicator& communicator, Listener& listener,
                           const WatchHandler& handler) {
  std::string text;  // "token port address ..."
  if (communicator.is_root()) {
    try {
      check_open_files(communicator.size());
      listener = listen_anywhere();
      std::random_device random;
      text = cat((std::uint64_t{random()} << 32) | random(), " ", listener.port);
      for (const std::string& address : own_addresses()) text += " " + address;
    } catch (const Error& error) {
      handler.warn(cat(error.what(), error.hint().empty() ? "" : "; hint: ", error.hint()));
      text.clear();
    }
  }
  std::vector<std::string> fields = words(communicator.broadcast(text, 0));
  if (fields.size() <= 2) return {};
  return {.job = std::stoull(fields[0]),
          .port = static_cast<std::uint16_t>(std::stoul(fields[1])),
          .addresses = {fields.begin() + 2, fields.end()}};
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
    thread = signal_free_thread([this] { loop->run(); });
  }
  // Makes this rank's loop; returns false if there is no connection between it and the hub.
  bool join(Endpoint endpoint, Listener listener) {
    if (endpoint.addresses.empty()) return false;
    context.job = endpoint.job;
    if (context.rank == 0) {
      loop = std::make_unique<Hub>(context, std::move(listener.socket));
      start_thread();
      return true;
    }
    // On the same node the last address, 127.0.0.1, always answers.
    if (context.hosts.at(static_cast<std::size_t>(context.rank)) == context.hosts.at(0)) {
      std::reverse(endpoint.addresses.begin(), endpoint.addresses.end());
    }
    auto connection = join_hub(context, endpoint.addresses, endpoint.port);
    if (connection) loop = std::make_unique<Spoke>(context, std::move(*connection));
    return connection.has_value();
  }
};

std::unique_ptr<Watch> Watch::start(Communicator& communicator, const WatchOptions& options,
                                    const WatchHandler& handler) {
  if (communicator.size() == 1) return nullptr;
  const RankGuard guard({.rank = communicator.rank(),
                         .limit_s = options.join_limit_s,
                         .second_s = options.second_s,
                         .what = "the ranks have not found each other",
                         .hint = "is a rank stopped, or the network between the nodes blocked? run "
                                 "the same command again",
                         .exit_code = exit_code(ErrorKind::kRankFailure)},
                        handler);
  // From here on an exception ends the thread if it runs by then.
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
  // Either all ranks have a connection, or the job continues without a watch.
  Listener listener;
  Endpoint endpoint = exchange_endpoint(communicator, listener, handler);
  const bool joined = parts.join(std::move(endpoint), std::move(listener));
  if (communicator.all_reduce_max(joined ? 0 : 1) != 0) {
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
  // The others must be told before their connections to this process end.
  for (int i = 0; i < 500 && !parts_->context.failure_sent; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // This error is a consequence of the diagnosed failure, and the watch thread ends this process
  // soon: with MPI_Abort now, an mpirun that waits for a node that is cut off would end it before
  // it can end that mpirun.
  if (parts_->context.diagnosis_known && !parts_->context.failure_sent) {
    const WatchOptions& options = parts_->context.options;
    std::this_thread::sleep_for(Seconds(2 * (options.launcher_limit_s + options.second_s)));
  }
}

void Watch::await_diagnosis() {
  const WatchOptions& options = parts_->context.options;
  std::this_thread::sleep_for(
      Seconds(options.stall_timeout_s + options.second_s + 2 * options.period_s));
}

}  // namespace retina
