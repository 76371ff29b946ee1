#include "shared/onnx/isolated_session.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/base/error.h"

namespace retina {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kHint =
    "the file does not hold a model of retina-convert: convert the checkpoint again";
// A message is its length and its bytes; an answer begins with one of these.
enum Status : char { kDone = 0, kFailed = 1, kNoMemory = 2 };
constexpr std::uint64_t kMostAnswerBytes = std::uint64_t{1} << 30;

// --- Messages -----------------------------------------------------------------------------------

class Packer {
 public:
  template <class T>
  void number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(std::string_view value) {
    number(std::uint64_t{value.size()});
    bytes_ += value;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_{};
};

// What does not fit reads as zeros and leaves `fits` false.
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : rest_(bytes) {}
  template <class T>
  T number() {
    T value{};
    const std::string_view bytes = take(sizeof value);
    if (bytes.size() == sizeof value) std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  std::string_view text() { return take(number<std::uint64_t>()); }
  bool fits() const { return fits_; }

 private:
  std::string_view take(std::uint64_t size_bytes) {
    fits_ &= size_bytes <= rest_.size();
    const std::string_view bytes =
        rest_.substr(0, fits_ ? static_cast<std::size_t>(size_bytes) : 0);
    rest_.remove_prefix(bytes.size());
    return bytes;
  }
  std::string_view rest_;
  bool fits_ = true;
};

enum class Passed { kYes, kEnded, kLate };

// Sends or receives all of the bytes on a socket that does not block.
template <class Pass>
Passed pass(int socket, short event, std::size_t size_bytes, Clock::time_point until,
            const Pass& part) {
  for (std::size_t done = 0; done < size_bytes;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
    if (left.count() <= 0) return Passed::kLate;
    pollfd wait{.fd = socket, .events = event, .revents = 0};
    if (::poll(&wait, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 60'000))) <= 0) {
      continue;
    }
    const ssize_t count = part(done);
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) return Passed::kEnded;
    if (count > 0) done += static_cast<std::size_t>(count);
  }
  return Passed::kYes;
}

Passed send_bytes(int socket, std::string_view bytes, Clock::time_point until) {
  return pass(socket, POLLOUT, bytes.size(), until, [&](std::size_t done) {
    return ::send(socket, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
  });
}

Passed receive_bytes(int socket, char* bytes, std::size_t size_bytes, Clock::time_point until) {
  return pass(socket, POLLIN, size_bytes, until,
              [&](std::size_t done) { return ::recv(socket, bytes + done, size_bytes - done, 0); });
}

Passed send_message(int socket, std::string_view message, Clock::time_point until) {
  const std::uint64_t size_bytes = message.size();
  const std::string_view length(reinterpret_cast<const char*>(&size_bytes), sizeof size_bytes);
  const Passed passed = send_bytes(socket, length, until);
  return passed == Passed::kYes ? send_bytes(socket, message, until) : passed;
}

// Ends as if the other side had ended where a message would be longer than `most_bytes`.
Passed receive_message(int socket, std::string& message, std::uint64_t most_bytes,
                       Clock::time_point until) {
  std::uint64_t size_bytes = 0;
  const Passed passed =
      receive_bytes(socket, reinterpret_cast<char*>(&size_bytes), sizeof size_bytes, until);
  if (passed != Passed::kYes) return passed;
  if (size_bytes > most_bytes) return Passed::kEnded;
  message.resize(static_cast<std::size_t>(size_bytes));
  return receive_bytes(socket, message.data(), message.size(), until);
}

std::string packed_outputs(const std::vector<OnnxOutput>& outputs) {
  Packer packer;
  packer.number(static_cast<std::uint32_t>(outputs.size()));
  for (const OnnxOutput& output : outputs) {
    packer.number(static_cast<std::uint32_t>(output.names.size()));
    for (const std::string& name : output.names) packer.text(name);
    packer.number(output.is_float);
    packer.number(static_cast<std::uint32_t>(output.shape.size()));
    std::uint64_t size_bytes = output.is_float ? sizeof(float) : sizeof(std::int64_t);
    for (const std::int64_t side : output.shape) {
      packer.number(side);
      size_bytes *= static_cast<std::uint64_t>(side);
    }
    packer.text({static_cast<const char*>(output.data), static_cast<std::size_t>(size_bytes)});
  }
  return packer.bytes();
}

// Numbers of outputs, aligned.
using OutputData = std::vector<std::vector<std::int64_t>>;

// Their numbers lie in `data`. Nothing where the bytes are no such list: whoever sent them runs a
// model that nobody checked.
std::optional<std::vector<OnnxOutput>> unpacked_outputs(std::string_view bytes, OutputData& data) {
  constexpr std::uint32_t kMostOutputs = 100, kMostNames = 100, kMostSides = 8;
  Unpacker packed(bytes);
  std::vector<OnnxOutput> outputs(std::min(packed.number<std::uint32_t>(), kMostOutputs));
  data.clear();
  for (OnnxOutput& output : outputs) {
    output.names.resize(std::min(packed.number<std::uint32_t>(), kMostNames));
    for (std::string& name : output.names) name = packed.text();
    output.is_float = packed.number<bool>();
    output.shape.resize(std::min(packed.number<std::uint32_t>(), kMostSides));
    std::uint64_t size_bytes = output.is_float ? sizeof(float) : sizeof(std::int64_t);
    for (std::int64_t& side : output.shape) {
      side = packed.number<std::int64_t>();
      if (side < 0 || static_cast<std::uint64_t>(side) > kMostAnswerBytes) return std::nullopt;
      if (__builtin_mul_overflow(size_bytes, static_cast<std::uint64_t>(side), &size_bytes)) {
        return std::nullopt;
      }
    }
    const std::string_view numbers = packed.text();
    if (!packed.fits() || numbers.size() != size_bytes) return std::nullopt;
    data.emplace_back(numbers.size() / sizeof(std::int64_t) + 1);
    std::memcpy(data.back().data(), numbers.data(), numbers.size());
    output.data = data.back().data();
  }
  return outputs;
}

// --- The process that runs the model ------------------------------------------------------------

// Answers requests until the other side is gone.
void answer_requests(int socket) {
  const Clock::time_point never = Clock::now() + std::chrono::hours(24 * 365);
  std::unique_ptr<OnnxSession> session;
  std::string request;
  while (receive_message(socket, request, std::uint64_t{1} << 40, never) == Passed::kYes) {
    std::string answer;
    try {
      Unpacker packed(request);
      if (!session) {
        const int threads = packed.number<int>();
        const std::string subject(packed.text());
        session = open_onnx_session(std::string(packed.text()), subject, threads);
      } else {
        OnnxImages images{.count = packed.number<std::int64_t>(),
                          .height = packed.number<std::int64_t>(),
                          .width = packed.number<std::int64_t>()};
        images.pixels = reinterpret_cast<const std::uint8_t*>(packed.text().data());
        answer = packed_outputs(session->run(images));
      }
      answer.insert(answer.begin(), kDone);
    } catch (const std::bad_alloc&) {
      answer = {kNoMemory};
    } catch (const std::exception& error) {
      // The runtime keeps it as words: "std::bad_alloc", "Failed to allocate N bytes".
      const std::string_view words = error.what();
      const bool no_memory = words.find("bad_alloc") != std::string_view::npos ||
                             words.find("allocate") != std::string_view::npos;
      answer = no_memory ? std::string{kNoMemory} : std::string{kFailed} + error.what();
    }
    if (send_message(socket, answer, never) != Passed::kYes) return;
  }
}

// --- The one that asks --------------------------------------------------------------------------

class IsolatedSession : public OnnxSession {
 public:
  IsolatedSession(std::string subject, const IsolationLimits& limits)
      : subject_(std::move(subject)), limits_(limits) {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail_to_start(errno);
    socket_ = ends[0];
    ::fcntl(socket_, F_SETFL, O_NONBLOCK);
    // A copy without the flag that closes it.
    const int other = ::fcntl(ends[1], F_DUPFD, 3);
    ::close(ends[1]);
    const std::string number = cat(other), memory = cat(limits.memory_bytes);
    std::array<const char*, 5> arguments = {"isolated-onnx", "--isolated-onnx", number.c_str(),
                                            memory.c_str(), nullptr};
    // What a runtime prints before it crashes is no message of ours.
    posix_spawn_file_actions_t silent;
    ::posix_spawn_file_actions_init(&silent);
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
      ::posix_spawn_file_actions_addopen(&silent, stream, "/dev/null", O_WRONLY, 0);
    }
    const int code = ::posix_spawn(&pid_, "/proc/self/exe", &silent, nullptr,
                                   const_cast<char* const*>(arguments.data()), environ);
    ::posix_spawn_file_actions_destroy(&silent);
    ::close(other);
    if (code != 0) {
      pid_ = -1;
      ::close(socket_);
      fail_to_start(code);
    }
  }
  ~IsolatedSession() override { end(); }
  IsolatedSession(const IsolatedSession&) = delete;
  IsolatedSession& operator=(const IsolatedSession&) = delete;

  void load(const std::string& model, int thread_count) {
    Packer request;
    request.number(thread_count);
    request.text(subject_);
    request.text(model);
    ask(request.bytes(), "loading it");
  }

  std::vector<OnnxOutput> run(const OnnxImages& images) override {
    Packer request;
    for (const std::int64_t size : {images.count, images.height, images.width}) {
      request.number(size);
    }
    request.text({reinterpret_cast<const char*>(images.pixels),
                  static_cast<std::size_t>(images.count * 3 * images.height * images.width)});
    ask(request.bytes(), "running it");
    auto outputs = unpacked_outputs(std::string_view(answer_).substr(1), data_);
    if (!outputs) fail("its process answered nonsense");
    return *std::move(outputs);
  }

 private:
  [[noreturn]] void fail_to_start(int code) const {
    throw Error(
        ErrorKind::kUnavailable,
        cat(subject_, ": a process to run it in cannot be started (", std::strerror(code), ")"),
        "free some memory or processes");
  }
  [[noreturn]] void fail(const std::string& problem) const {
    throw Error(ErrorKind::kData, cat(subject_, ": ", problem), kHint);
  }

  // Kills the process where it still runs; returns how it ended, in words.
  std::string end() {
    if (pid_ < 0) return "";
    ::close(socket_);
    int status = 0;
    // One that ended by itself gets a moment to be seen.
    for (int tries = 0; ::waitpid(pid_, &status, WNOHANG) == 0; ++tries) {
      if (tries == 20) ::kill(pid_, SIGKILL);
      ::usleep(10'000);
    }
    pid_ = -1;
    if (WIFSIGNALED(status))
      return cat("signal ", WTERMSIG(status), ", ", strsignal(WTERMSIG(status)));
    return cat("exit code ", WEXITSTATUS(status));
  }

  // Sends the request and waits for the answer, which stays in `answer_`.
  void ask(std::string_view request, const char* doing) {
    const Clock::time_point until = Clock::now() + limits_.deadline;
    Passed passed = send_message(socket_, request, until);
    if (passed == Passed::kYes) passed = receive_message(socket_, answer_, kMostAnswerBytes, until);
    if (passed == Passed::kLate) {
      end();
      fail(cat(doing, " took more than ", limits_.deadline.count(), " s (the limit)"));
    }
    if (passed == Passed::kEnded || answer_.empty()) {
      fail(cat(doing, " ended its process (", end(), ")"));
    }
    if (answer_.front() == kNoMemory) {
      fail(cat(doing, " takes more than ", human_bytes(static_cast<double>(limits_.memory_bytes)),
               " of memory (the limit)"));
    }
    if (answer_.front() == kFailed) throw Error(ErrorKind::kData, answer_.substr(1), kHint);
  }

  std::string subject_;
  IsolationLimits limits_;
  int socket_ = -1;
  pid_t pid_ = -1;
  std::string answer_{};
  OutputData data_{};
};

}  // namespace

std::unique_ptr<OnnxSession> open_isolated_session(const std::string& model,
                                                   const std::string& subject, int thread_count,
                                                   const IsolationLimits& limits) {
  require_onnx_runtime(subject);
  auto session = std::make_unique<IsolatedSession>(subject, limits);
  session->load(model, thread_count);
  return session;
}

int isolated_main(int argc, const char* const* argv) {
  if (argc != 4) return 64;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int socket = std::atoi(argv[2]);
  const rlim_t most = std::strtoull(argv[3], nullptr, 10);
  const rlimit memory{.rlim_cur = most, .rlim_max = most}, none{.rlim_cur = 0, .rlim_max = 0};
  ::setrlimit(RLIMIT_DATA, &memory);
  ::setrlimit(RLIMIT_CORE, &none);
  answer_requests(socket);
  return 0;
}

}  // namespace retina
