// A folder of files behind a URL (remote_access.h lists the kinds), read over HTTP: small files
// whole, large ones by parallel ranges. Requests are repeated after transient errors (retries.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "shared/remote/retries.h"

namespace retina {

struct RemoteOptions {
  std::size_t connections = 8;  // connections for one file
  // A connection's share of one file at a time. Azure and Amazon advise 8 to 16 MB.
  std::uint64_t part_bytes = std::uint64_t{8} << 20;
  int stall_s = 30;  // see HttpRequest
  // Policy for the first files: a host that does not exist should be named soon. A busy one is
  // waited for: many ranks may begin at once.
  RetryPolicy opening = {.unanswered_tries = 5};
  RetryPolicy downloading = {};  // about a minute without an answer
};

class RemoteFolder {
 public:
  // Sends no request yet. Throws kUsage: the URL is not one that can be read.
  explicit RemoteFolder(const std::string& url, const RemoteOptions& options = {});
  ~RemoteFolder();
  RemoteFolder(RemoteFolder&&) noexcept;
  RemoteFolder& operator=(RemoteFolder&&) noexcept;

  // Returns the URL for people: without its secrets.
  const std::string& name() const;

  // Reads the whole content of a small file. Errors name its URL, without secrets, and the
  // service's message. Throws kNoInput: it does not exist, or may not be read; kIo: it did not
  // come, in spite of all tries; kInterrupted (signals.h); kData: it is larger than `most_bytes`.
  // Content that `is_whole` refuses is requested again, twice: not every response states its
  // length.
  using IsWhole = std::function<bool(const std::string&)>;
  std::string read(const std::string& file, std::uint64_t most_bytes,
                   const IsWhole& is_whole = {}) const;

  // Downloads the file, which has `size_bytes`, into an open file. Content is not checked: a proxy
  // may have changed it. Throws as read(), kInterrupted if it is stopped, kData if the size is
  // another, and std::system_error if the local disk fails. Thread-safe.
  struct Download {
    const std::string& file;
    std::uint64_t size_bytes = 0;
    int descriptor = -1;
  };
  void download(const Download& download, const std::stop_token& stop) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace retina
