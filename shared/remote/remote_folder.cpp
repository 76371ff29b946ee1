#include "shared/remote/remote_folder.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "shared/base/cat.h"
#include "shared/base/descriptor.h"
#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "shared/base/log.h"
#include "shared/base/printable.h"
#include "shared/base/signals.h"
#include "shared/remote/remote_access.h"

namespace retina {
namespace {

constexpr int kMostVersions = 4;  // of a file that changes while it is read; the last try takes any
constexpr int kMostResponses = 3;  // that came whole, with wrong content
constexpr int kTriesBeforeWarning = 3;
constexpr const char* kSameSizeHint = "upload the data set again, all of its files";

struct VersionChanged {};  // the file has changed since its first parts came
struct RangesIgnored {};   // the server sends whole files

// The numbers of "bytes 0-99/1234"; parse_content_range() returns nothing without them.
struct ContentRange {
  ByteRange range{};
  std::uint64_t size_bytes = 0;
};
std::optional<ContentRange> parse_content_range(const std::string& text) {
  unsigned long long begin = 0, last = 0, size = 0;
  if (std::sscanf(text.c_str(), "bytes %llu-%llu/%llu", &begin, &last, &size) != 3) return {};
  return ContentRange{.range = {.begin = begin, .end = last + 1}, .size_bytes = size};
}

// Returns the problem with the encoding of a response: a file must come unchanged; empty: none.
std::string encoding_problem(const HttpHead& head) {
  if (head.content_encoding.empty() || head.content_encoding == "identity") return "";
  return cat("it came with Content-Encoding ", escaped(head.content_encoding),
             ": a proxy on the way changes files");
}

}  // namespace

struct RemoteFolder::State {
  explicit State(const std::string& url, const RemoteOptions& o) : access(url), options(o) {}

  RemoteAccess access;
  RemoteOptions options;
  std::mutex mutex{};
  bool has_warned = false;

  std::string name_of(const std::string& file) const { return cat(access.name(), "/", file); }

  Error error_of(const std::string& file, const HttpAnswer& answer, const std::string& problem) {
    const std::string name = name_of(file);
    const int status = answer.head.status;
    if (status == 404 || status == 410) {
      return {ErrorKind::kNoInput, cat(name, ": does not exist (", problem, ")"),
              "give the URL of a folder that coco-pack --output wrote, with all of its files"};
    }
    if (is_refusal(answer)) {
      return {ErrorKind::kNoInput, cat(name, ": may not be read (", problem, ")"),
              access.refusal_hint()};
    }
    if (status == 416) {
      return {ErrorKind::kData, cat(name, ": is shorter than the manifest says (", problem, ")"),
              kSameSizeHint};
    }
    return {answer.is_hopeless ? ErrorKind::kNoInput : ErrorKind::kIo,
            cat(name, ": cannot be read (", problem, ")"),
            "check the URL and the network, then run the same command again"};
  }

  void warn(const std::string& file, const std::string& problem) {
    {
      const std::lock_guard lock(mutex);
      if (std::exchange(has_warned, true)) return;
    }
    log_warning(name_of(file), ": ", problem, "; such requests are made again");
  }

  // Request for a file, or a range of it, repeated until all of it has come.
  struct Fetch {
    const std::string& file;
    RetryPolicy policy = {};
    // Called before each try: returns the missing range; nothing: the whole file.
    std::function<std::optional<ByteRange>()> on_try = {};
    // Called with each response's head: returns "" or why it is not the requested one.
    std::function<std::string(const HttpHead&)> check = {};
    std::function<bool(std::string_view)> take = {};  // false: more than wanted has come
    std::function<bool()> is_done = {};               // called after a complete response
  };
  void fetch(const Fetch& fetch, HttpClient& client, const std::stop_token& stop);
};

void RemoteFolder::State::fetch(const Fetch& fetch, HttpClient& client,
                                const std::stop_token& stop) {
  Retries retries(fetch.policy, stop);
  bool has_renewed = false;
  for (;;) {
    HttpRequest request = access.request(fetch.file, stop);
    request.range = fetch.on_try();
    request.stall_s = options.stall_s;
    bool is_first = true, has_more = false;
    std::string wrong;
    HttpAnswer answer = client.get(
        request,
        [&](const HttpHead& head, std::string_view bytes) {
          if (std::exchange(is_first, false)) wrong = fetch.check(head);
          if (!wrong.empty()) return false;
          has_more = !fetch.take(bytes);
          if (request.range) retries.reset();  // a file that is read whole begins anew
          return !has_more;
        },
        stop);
    check_stop(name_of(fetch.file), stop);
    // check() has not seen a response without a body yet.
    if (answer.is_ok() && is_first) wrong = fetch.check(answer.head);
    if ((answer.is_ok() || has_more) && wrong.empty()) {
      if (fetch.is_done()) return;
      wrong = "the response ended before its last byte";
    }
    if (answer.head.status == 401 && !has_renewed && access.renew(request)) {
      has_renewed = true;
      continue;
    }
    // Removed before the text is cut to a message's length, which might leave a part of a secret.
    answer.refusal = access.without_secrets(answer.refusal);
    const std::string problem =
        access.without_secrets(wrong.empty() ? describe_answer(answer) : wrong);
    if (!may_pass(answer)) throw error_of(fetch.file, answer, problem);
    if (retries.failed() + 1 == kTriesBeforeWarning) warn(fetch.file, problem);
    log_debug(name_of(fetch.file), ": ", problem, "; trying again");
    const bool goes_on = retries.wait(answer);
    check_stop(name_of(fetch.file), stop);
    if (!goes_on) throw error_of(fetch.file, answer, problem);
  }
}

namespace {

void write_at(int descriptor, std::uint64_t offset, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = retried([&] {
      return ::pwrite(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    });
    if (wrote < 0) throw std::system_error(errno, std::generic_category());
    offset += static_cast<std::uint64_t>(wrote);
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
}

// A download of one file by several threads.
class Downloading {
 public:
  using Fetch = std::function<void(ByteRange part, HttpClient&, const std::stop_token&)>;
  Downloading(std::uint64_t size_bytes, std::uint64_t part_bytes, bool takes_any)
      : takes_any_(takes_any) {
    for (std::uint64_t begin = 0; begin < size_bytes; begin += part_bytes) {
      missing_.push_back({.begin = begin, .end = std::min(size_bytes, begin + part_bytes)});
    }
  }

  // Throws VersionChanged unless all responses are of one version, or the last try takes any:
  // replicas of a server report different ETags of one file, and its checksum decides in the end.
  void agree(const HttpHead& head, std::uint64_t size_bytes) {
    const std::string etag = takes_any_ ? "" : head.etag;
    const std::uint64_t version = xxh3(cat(size_bytes, " ", etag)) | 1;  // never 0
    const std::lock_guard lock(mutex_);
    if (version_ != 0 && version != version_) throw VersionChanged{};
    version_ = version;
  }

  // Downloads all parts by `fetch`, on `thread_count` threads. The first exception ends them all.
  void run(std::size_t thread_count, const std::stop_token& stop, const Fetch& fetch) {
    std::stop_source all;
    const std::stop_callback forward(stop, [&all] { all.request_stop(); });
    const auto work = [&] {
      try {
        HttpClient client;
        while (const std::optional<ByteRange> part = next()) fetch(*part, client, all.get_token());
      } catch (...) {
        const std::lock_guard lock(mutex_);
        if (!thrown_) thrown_ = std::current_exception();
        missing_.clear();
        all.request_stop();
      }
    };
    {
      std::vector<std::jthread> threads;
      const std::size_t count = std::min(thread_count, missing_.size());
      for (std::size_t i = 1; i < count; ++i) threads.emplace_back(work);
      work();
    }
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  std::optional<ByteRange> next() {
    const std::lock_guard lock(mutex_);
    if (missing_.empty()) return std::nullopt;
    const ByteRange part = missing_.front();
    missing_.pop_front();
    return part;
  }

  bool takes_any_;
  std::uint64_t version_ = 0;  // of the source; 0: nothing has come
  std::mutex mutex_{};
  std::deque<ByteRange> missing_{};
  std::exception_ptr thrown_{};
};

[[noreturn]] void fail_by_size(const std::string& name, const std::string& got,
                               std::uint64_t want_bytes) {
  throw Error(ErrorKind::kData,
              cat(name, ": has another size than the manifest says (got ", got, ", want ",
                  want_bytes, " bytes)"),
              kSameSizeHint);
}

}  // namespace

RemoteFolder::RemoteFolder(const std::string& url, const RemoteOptions& options)
    : state_(std::make_unique<State>(url, options)) {}
RemoteFolder::~RemoteFolder() = default;
RemoteFolder::RemoteFolder(RemoteFolder&&) noexcept = default;
RemoteFolder& RemoteFolder::operator=(RemoteFolder&&) noexcept = default;

const std::string& RemoteFolder::name() const {
  return state_->access.name();
}

std::string RemoteFolder::read(const std::string& file, std::uint64_t most_bytes,
                               const IsWhole& is_whole) const {
  std::string content;
  int responses = 0;
  HttpClient client;
  state_->fetch(
      {.file = file,
       .policy = state_->options.opening,
       .on_try =
           [&] {
             content.clear();
             return std::nullopt;
           },
       .check = encoding_problem,
       .take =
           [&](std::string_view bytes) {
             content += bytes;
             if (content.size() <= most_bytes) return true;
             throw Error(ErrorKind::kData,
                         cat(state_->name_of(file), ": is too large (got more than ", most_bytes,
                             " bytes)"),
                         kSameSizeHint);
           },
       .is_done = [&] { return ++responses == kMostResponses || !is_whole || is_whole(content); }},
      client, {});
  return content;
}

void RemoteFolder::download(const Download& download, const std::stop_token& stop) const {
  State& state = *state_;
  const std::uint64_t size_bytes = download.size_bytes;
  const std::string name = state.name_of(download.file);

  const auto fetch_part = [&](Downloading& all, ByteRange wanted, HttpClient& client,
                              const std::stop_token& token) {
    const auto check = [&](const HttpHead& head) -> std::string {
      if (head.status == 200) throw RangesIgnored{};
      const auto got = parse_content_range(head.content_range);
      if (head.status != 206 || !got) return cat("HTTP ", head.status, " without a range");
      if (std::string problem = encoding_problem(head); !problem.empty()) return problem;
      if (got->size_bytes != size_bytes) fail_by_size(name, cat(got->size_bytes), size_bytes);
      if (got->range.begin != wanted.begin || got->range.end != wanted.end) {
        return cat("got bytes ", got->range.begin, " to ", got->range.end, ", want ", wanted.begin,
                   " to ", wanted.end);
      }
      all.agree(head, size_bytes);
      return "";
    };
    state.fetch({.file = download.file,
                 .policy = state.options.downloading,
                 .on_try = [&] { return wanted; },
                 .check = check,
                 .take =
                     [&](std::string_view bytes) {
                       const bool has_more = bytes.size() > wanted.size_bytes();
                       bytes = bytes.substr(0, wanted.size_bytes());
                       write_at(download.descriptor, wanted.begin, bytes);
                       wanted.begin += bytes.size();
                       return !has_more;
                     },
                 .is_done = [&] { return wanted.size_bytes() == 0; }},
                client, token);
  };

  // Downloads by one request, for a server without ranges.
  const auto fetch_whole = [&] {
    std::uint64_t got_bytes = 0;
    HttpClient client;
    state.fetch({.file = download.file,
                 .policy = state.options.downloading,
                 .on_try =
                     [&] {
                       got_bytes = 0;
                       return std::nullopt;
                     },
                 .check = encoding_problem,
                 .take =
                     [&](std::string_view bytes) {
                       if (got_bytes + bytes.size() > size_bytes) {
                         fail_by_size(name, "more", size_bytes);
                       }
                       write_at(download.descriptor, got_bytes, bytes);
                       got_bytes += bytes.size();
                       return true;
                     },
                 .is_done = [&] { return got_bytes == size_bytes; }},
                client, stop);
  };

  for (int versions = 1;; ++versions) {
    try {
      Downloading all(size_bytes, state.options.part_bytes, versions == kMostVersions);
      return all.run(state.options.connections, stop,
                     [&](ByteRange part, HttpClient& client, const std::stop_token& token) {
                       fetch_part(all, part, client, token);
                     });
    } catch (const RangesIgnored&) {
      return fetch_whole();
    } catch (const VersionChanged&) {
      continue;
    }
  }
}

}  // namespace retina
