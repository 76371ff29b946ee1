// A job of many ranks on one machine: the watch's own threads, in a process a victim and a process
// for dozens of others, over the loopback. Some are lost on demand. Prints one JSON object: what
// rank 0 costs, who reported what and when. many_ranks.py runs it.
#include <linux/filter.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "shared/base/cli.h"
#include "shared/base/error.h"
#include "shared/base/json.h"
#include "shared/base/measure.h"
#include "shared/base/program.h"
#include "shared/watch/rank_guard.h"
#include "shared/watch/watch_loop.h"

namespace retina {
namespace {

constexpr std::uint64_t kJob = 77;
constexpr int kRanksPerProcess = 64;
constexpr double kEndSeconds = 30;  // for ranks that never end

struct Options {
  int ranks = 16;
  int ranks_per_node = 8;
  std::string fault = "kill";  // kill, stop, cut; end: none, all end their work
  int first_lost = 1, lost = 1;
  double rest_s = 3;  // how long rank 0's processor time is measured
  WatchOptions watch{.stall_timeout_s = 5};
};

// What the processes tell each other, in shared memory. Times are of the machine's steady clock; 0:
// not yet.
struct RankNote {
  std::atomic<std::uint16_t> port;  // of its connection to rank 0
  std::atomic<double> joined_s, reported_s, ended_s;
  std::atomic<int> code;
  std::array<char, 8192> line;
};
struct Notes {
  std::atomic<int> measured;
  std::atomic<double> cpu_s, memory_bytes;  // of rank 0
  std::atomic<int> sockets;
  RankNote ranks[1];
};

void sleep_s(double duration) {
  std::this_thread::sleep_for(std::chrono::duration<double>(duration));
}

std::uint16_t port_of(int fd, decltype(::getsockname)* ask) {
  struct sockaddr_in address {};
  socklen_t size = sizeof(address);
  if (ask(fd, reinterpret_cast<struct sockaddr*>(&address), &size) != 0) return 0;
  return address.sin_family == AF_INET ? ntohs(address.sin_port) : std::uint16_t{0};
}

std::vector<int> open_sockets() {
  std::vector<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename().string());
    if (port_of(fd, ::getsockname) != 0) found.push_back(fd);
  }
  return found;
}

// From now on the kernel drops each packet that comes for this socket.
void deafen(int fd) {
  struct sock_filter drop {
    .code = BPF_RET | BPF_K, .jt = 0, .jf = 0, .k = 0
  };
  const struct sock_fprog program { .len = 1, .filter = &drop };
  if (::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) != 0) {
    std::cerr << "SO_ATTACH_FILTER: " << std::strerror(errno) << '\n';
  }
}

double own_memory_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kib = 0;
    if (word == "RssAnon:" && status >> kib) return kib * 1024;
  }
  return 0;
}

// A rank in the middle of a step: it waits in a collective, as the others do.
class Rank {
 public:
  Rank(int rank, const Options& options, const std::vector<std::string>& hosts, Notes& notes)
      : note_(notes.ranks[rank]), activity_(rank) {
    context_.options = options.watch;
    context_.handler = {.report =
                            [this](const std::string& message, const std::string&) {
                              const std::size_t size =
                                  message.copy(note_.line.data(), note_.line.size() - 1);
                              note_.line[size] = '\0';
                              note_.reported_s = now_seconds();
                            },
                        .warn = [](const std::string&) {},
                        .end_launcher = [] {},
                        .end =
                            [this](int code) {
                              note_.code = code;
                              note_.ended_s = now_seconds();
                            }};
    context_.rank = rank;
    context_.size = options.ranks;
    context_.job = kJob;
    context_.hosts = hosts;
    context_.wake = Descriptor(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    context_.activity = &activity_;
    for (int bucket = 0; bucket < 300; ++bucket) {
      activity_.set_step(1 + bucket / 10);
      Operation operation{.kind = CollectiveKind::kAllReduce, .type = ElementType::kFloat32};
      operation.count = 1 << 20;
      operation.set_label(cat("bucket ", bucket % 10));
      if (bucket > 0) activity_.end();
      activity_.begin(operation);
    }
  }

  void start(Listener& listener) {
    if (context_.rank == 0) {
      run(std::make_unique<Hub>(context_, std::move(listener.socket)));
      note_.joined_s = now_seconds();
      return;
    }
    thread_ = signal_free_thread([this, port = listener.port] {
      auto connection = join_hub(context_, {"127.0.0.1"}, port);
      if (!connection) return;
      note_.port = port_of(connection->fd(), ::getsockname);
      note_.joined_s = now_seconds();
      Spoke(context_, std::move(*connection)).run();
    });
  }
  void all_joined() { context_.all_joined = true; }
  void leave() {
    activity_.end();
    activity_.leave();
    context_.beat_now = true;
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto size = ::write(context_.wake.get(), &one, sizeof(one));
  }
  void await_all_left() {
    context_.all_left.wait(false);
    note_.ended_s = now_seconds();
  }

 private:
  void run(std::unique_ptr<WatchLoop> loop) {
    thread_ =
        signal_free_thread([own = std::shared_ptr<WatchLoop>(std::move(loop))] { own->run(); });
  }

  RankNote& note_;
  Activity activity_;
  WatchContext context_{};
  std::thread thread_;
};

enum Order : char { kGo, kJoined, kMeasure, kCut, kLeave };

// One process and its ranks.
class Group {
 public:
  Group(std::vector<int> ranks, const Options& options, const std::vector<std::string>& hosts,
        Notes& notes, Listener& listener)
      : ranks_(std::move(ranks)) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw Error(ErrorKind::kIo, "pipe");
    const Descriptor read_end(ends[0]);
    orders_ = Descriptor(ends[1]);
    process_ = ::fork();
    if (process_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    obey(read_end.get(), options, hosts, notes, listener);
    ::_exit(0);
  }
  Group(Group&&) = default;
  Group& operator=(Group&&) = default;
  ~Group() {
    if (!orders_) return;  // moved from
    signal(SIGKILL);
    ::waitpid(process_, nullptr, 0);
  }

  void order(Order order) const { [[maybe_unused]] auto n = ::write(orders_.get(), &order, 1); }
  void signal(int number) const { ::kill(process_, number); }
  int first() const { return ranks_.front(); }

 private:
  void obey(int orders, const Options& options, const std::vector<std::string>& hosts, Notes& notes,
            Listener& listener) const {
    std::vector<std::unique_ptr<Rank>> ranks;
    for (const int rank : ranks_) {
      ranks.push_back(std::make_unique<Rank>(rank, options, hosts, notes));
    }
    if (ranks_.front() != 0) listener.socket = Descriptor();
    const double memory_before_bytes = own_memory_bytes();
    for (Order order{}; ::read(orders, &order, 1) == 1;) {
      if (order == kGo) {
        for (auto& rank : ranks) rank->start(listener);
      } else if (order == kJoined) {
        for (auto& rank : ranks) rank->all_joined();
      } else if (order == kMeasure) {
        struct rusage usage {};
        ::getrusage(RUSAGE_SELF, &usage);
        const auto seconds = [](const struct timeval& time) {
          return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
        };
        notes.cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
        notes.memory_bytes = own_memory_bytes() - memory_before_bytes;
        notes.sockets = static_cast<int>(open_sockets().size());
        ++notes.measured;
      } else if (order == kCut) {
        cut(options, notes);
      } else if (order == kLeave) {
        for (auto& rank : ranks) rank->leave();
        for (auto& rank : ranks) rank->await_all_left();
      }
    }
  }

  static void cut(const Options& options, const Notes& notes) {
    std::set<std::uint16_t> ports;
    for (int rank = options.first_lost; rank < options.first_lost + options.lost; ++rank) {
      ports.insert(notes.ranks[rank].port);
    }
    const bool root = options.first_lost == 0;  // cut from those that are not lost with it
    for (const int fd : open_sockets()) {
      const std::uint16_t own = port_of(fd, ::getsockname), other = port_of(fd, ::getpeername);
      if (other != 0 && (ports.count(own) + ports.count(other) != 0) != root) deafen(fd);
    }
  }

  std::vector<int> ranks_;
  Descriptor orders_;
  pid_t process_ = 0;
};

class Job {
 public:
  explicit Job(const Options& options) : options_(options) {
    const std::size_t bytes =
        sizeof(Notes) + static_cast<std::size_t>(options.ranks) * sizeof(RankNote);
    void* memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw Error(ErrorKind::kIo, "mmap");
    notes_ = new (memory) Notes;
    std::vector<std::string> hosts;
    for (int rank = 0; rank < options.ranks; ++rank) {
      hosts.push_back(cat("node-", rank / options.ranks_per_node));
    }
    Listener listener = listen_anywhere();
    // A process has either ranks that are lost or ranks that are not; rank 0 is alone.
    std::vector<int> together;
    for (int rank = 0; rank < options.ranks; ++rank) {
      together.push_back(rank);
      const bool ends = rank == 0 || rank + 1 == options.ranks ||
                        is_lost(rank) != is_lost(rank + 1) ||
                        together.size() == static_cast<std::size_t>(kRanksPerProcess);
      if (!ends) continue;
      groups_.emplace_back(std::move(together), options, hosts, *notes_, listener);
      together.clear();
    }
  }

  void run(JsonWriter& json) {
    const double begin_s = now_seconds();
    order(kGo);
    until([&] { return all([](const RankNote& note) { return note.joined_s > 0; }); });
    double joined_s = begin_s;
    int joined = 0;
    for (int rank = 0; rank < options_.ranks; ++rank) {
      joined_s = std::max<double>(joined_s, notes_->ranks[rank].joined_s);
      if (notes_->ranks[rank].joined_s > 0) ++joined;
    }
    json.field("ranks", options_.ranks)
        .field("joined", joined)
        .field("start_s", joined_s - begin_s);
    order(kJoined);
    measure();
    json.field("start_cpu_s", double{notes_->cpu_s});
    sleep_s(1);
    measure();
    const double from_s = now_seconds(), cpu_s = notes_->cpu_s;
    sleep_s(options_.rest_s);
    measure();
    json.field("cpu_share", (notes_->cpu_s - cpu_s) / (now_seconds() - from_s));
    json.field("memory_bytes", double{notes_->memory_bytes});
    json.field("sockets", int{notes_->sockets});
    const double rest_cpu_s = notes_->cpu_s;
    const double fault_s = now_seconds();
    strike();
    until([&] { return all([](const RankNote& note) { return note.ended_s > 0; }); });
    if (options_.fault == "end") measure();
    json.field("end_cpu_s", notes_->cpu_s - rest_cpu_s);
    tell(json, fault_s);
  }

 private:
  bool is_lost(int rank) const {
    return rank >= options_.first_lost && rank < options_.first_lost + options_.lost;
  }
  // Ranks that are stopped or dead do not count.
  template <class Test>
  bool all(const Test& test) const {
    for (int rank = 0; rank < options_.ranks; ++rank) {
      if (!(struck_ && is_lost(rank) && options_.fault != "cut") && !test(notes_->ranks[rank])) {
        return false;
      }
    }
    return true;
  }
  template <class Done>
  static void until(const Done& done) {
    const double limit_s = now_seconds() + kEndSeconds;
    while (!done() && now_seconds() < limit_s) sleep_s(0.002);
  }
  void order(Order order) const {
    for (const Group& group : groups_) group.order(order);
  }
  void measure() const {
    const int before = notes_->measured;
    groups_.front().order(kMeasure);
    until([&] { return notes_->measured > before; });
  }

  void strike() {
    if (options_.fault == "end") return order(kLeave);
    struck_ = true;
    if (options_.fault == "cut") return order(kCut);
    for (const Group& group : groups_) {
      if (is_lost(group.first())) group.signal(options_.fault == "kill" ? SIGKILL : SIGSTOP);
    }
  }

  void tell(JsonWriter& json, double fault_s) const {
    double last_s = fault_s, first_s = 1e18;
    int ended = 0, wrong_codes = 0;
    for (int rank = 0; rank < options_.ranks; ++rank) {
      const RankNote& note = notes_->ranks[rank];
      if (!(note.ended_s > 0)) continue;
      ++ended;
      last_s = std::max<double>(last_s, note.ended_s);
      first_s = std::min<double>(first_s, note.ended_s);
      if (note.code != (struck_ ? exit_code(ErrorKind::kRankFailure) : 0)) ++wrong_codes;
    }
    json.field("ended", ended).field("wrong_codes", wrong_codes);
    json.field("first_end_s", first_s - fault_s).field("last_end_s", last_s - fault_s);
    json.key("lines").begin_array();
    for (int rank = 0; rank < options_.ranks; ++rank) {
      const RankNote& note = notes_->ranks[rank];
      if (!(note.reported_s > 0)) continue;
      json.begin_object().field("rank", rank).field("s", note.reported_s - fault_s);
      json.field("text", std::string(note.line.data())).end_object();
    }
    json.end_array();
  }

  const Options options_;
  Notes* notes_ = nullptr;
  std::vector<Group> groups_;
  bool struck_ = false;
};

}  // namespace
}  // namespace retina

int main(int argc, char** argv) {
  retina::Options options;
  retina::Cli cli("many_ranks", "many_ranks [OPTIONS]", "The watch of a job of many ranks.");
  cli.option("ranks", options.ranks, "N", "in the job");
  cli.option("ranks-per-node", options.ranks_per_node, "N", "of names of nodes");
  cli.option("fault", options.fault, "KIND", "kill, stop, cut, or end");
  cli.option("first-lost", options.first_lost, "RANK", "whom it hits");
  cli.option("lost", options.lost, "N", "how many from there on");
  cli.option("rest", options.rest_s, "S", "how long rank 0's processor time is measured");
  cli.option("folder", options.watch.folder, "DIR", "where ranks of a node agree who reports");
  return retina::run_program("many_ranks", [&] {
    if (cli.parse(argc, argv) == retina::CliOutcome::kDone) return 0;
    retina::JsonWriter json;
    json.begin_object();
    retina::Job(options).run(json);
    std::cout << json.end_object().text() << std::endl;
    return 0;
  });
}
