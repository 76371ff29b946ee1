// GET over HTTP with libcurl: one request after the other on a connection that stays open.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace retina {

// Bytes [begin, end) of a file.
struct ByteRange {
  std::uint64_t begin = 0, end = 0;
  std::uint64_t size_bytes() const { return end - begin; }
};

struct HttpRequest {
  std::string url{};                   // with its secrets
  std::vector<std::string> headers{};  // "Name: value"
  std::optional<ByteRange> range{};
  // AWS Signature Version 4 (CURLOPT_AWS_SIGV4's "aws:amz:REGION:s3") by "KEY:SECRET"; empty: none.
  std::string sigv4{}, key{};
  bool follows_redirects = false;  // to https, or from one loopback address to another
  bool is_link_local = false;      // answers at once or never, and never through a proxy
  int stall_s = 30;                // ends a transfer with less than 1 KiB/s for that long
};

// Head of a response; of the last one if there were redirects.
struct HttpHead {
  int status = 0;
  std::string etag{}, content_range{}, content_encoding{};
};

struct HttpAnswer {
  HttpHead head{};
  std::string problem{};           // the connection's; empty: the whole response came
  bool is_hopeless = false;        // trying again does not help: a certificate, no such protocol
  bool was_stopped = false;        // by the stop token, or by the consumer of the body
  std::string refusal{};           // the first bytes of the body of a status other than 2xx
  std::int64_t retry_after_s = 0;  // as the server asked for; 0: it did not

  bool is_ok() const { return problem.empty() && head.status >= 200 && head.status < 300; }
};

// Returns true if the URL's host is this machine: never through a proxy, and the only host for
// plain http.
bool is_loopback(const std::string& url);

class HttpClient {
 public:
  HttpClient();

  // Receives the body of a 2xx response, a piece at a time, until it returns false. Its exceptions
  // come out of get(). It must refuse a Content-Encoding, which was not requested.
  using TakeBody = std::function<bool(const HttpHead&, std::string_view)>;
  HttpAnswer get(const HttpRequest& request, const TakeBody& take, const std::stop_token& stop);

 private:
  std::unique_ptr<void, void (*)(void*)> handle_;  // libcurl's CURL
};

}  // namespace retina
