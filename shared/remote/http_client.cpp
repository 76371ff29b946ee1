#include "shared/remote/http_client.h"

#include <curl/curl.h>

#include <array>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <mutex>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/signals.h"
#include "shared/base/text_encoding.h"
#include "shared/base/url.h"
#include "shared/base/version.h"

namespace retina {
namespace {

constexpr std::size_t kMostRefusalBytes = 8192, kMostHeaderBytes = 256 << 10;
constexpr long kConnectSeconds = 20, kLinkLocalSeconds = 3, kMostRedirects = 5;
constexpr long kSlowBytesPerSecond = 1024;

struct FreeHeaders {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

// A request in progress, for libcurl's callbacks.
struct Exchange {
  const HttpClient::TakeBody& take;
  const std::stop_token& stop;
  HttpAnswer answer{};
  std::exception_ptr thrown{};
  CURL* curl = nullptr;
  bool stays_here = false;  // with plain http
  std::size_t header_bytes = 0;
};

template <class Value>
void set(CURL* handle, CURLoption option, Value value) {
  const CURLcode code = curl_easy_setopt(handle, option, value);
  RETINA_CHECK(code == CURLE_OK, "libcurl's option ", static_cast<int>(option), ": ",
               curl_easy_strerror(code));
}

std::size_t on_header(const char* data, std::size_t size, std::size_t count, void* user) {
  Exchange& exchange = *static_cast<Exchange*>(user);
  if ((exchange.header_bytes += size * count) > kMostHeaderBytes) {
    exchange.answer.problem = "its headers have no end";
    return 0;
  }
  HttpHead& head = exchange.answer.head;
  const std::string_view line(data, size * count);
  if (line.starts_with("HTTP/")) {  // a new response: of a redirect, or after a 100
    head = {};
    const std::size_t space = line.find(' ');
    if (space != std::string_view::npos) head.status = std::atoi(line.data() + space);
    return size * count;
  }
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return size * count;
  const std::string name = lower_case(line.substr(0, colon));
  const std::string value(trimmed(line.substr(colon + 1)));
  if (name == "etag") head.etag = value;
  if (name == "content-range") head.content_range = value;
  if (name == "content-encoding") head.content_encoding = value;
  return size * count;
}

std::size_t on_body(const char* data, std::size_t size, std::size_t count, void* user) {
  Exchange& exchange = *static_cast<Exchange*>(user);
  HttpAnswer& answer = exchange.answer;
  const std::string_view bytes(data, size * count);
  const char* from = nullptr;
  curl_easy_getinfo(exchange.curl, CURLINFO_EFFECTIVE_URL, &from);
  if (const std::string url = from;
      exchange.stays_here && url.starts_with("http:") && !is_loopback(url)) {
    answer.problem = "it is redirected to http:// on another machine, which is not encrypted";
    return 0;
  }
  if (answer.head.status < 200 || answer.head.status >= 300) {
    answer.refusal += bytes.substr(0, kMostRefusalBytes - answer.refusal.size());
    return answer.refusal.size() < kMostRefusalBytes ? bytes.size() : 0;  // it may have no end
  }
  try {
    if (exchange.take(answer.head, bytes)) return bytes.size();
  } catch (...) {
    exchange.thrown = std::current_exception();
  }
  answer.was_stopped = true;
  return 0;
}

// Aborts a transfer that should stop; libcurl calls it at least once a second.
int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  Exchange& exchange = *static_cast<Exchange*>(user);
  if (!is_stopping(exchange.stop)) return 0;
  exchange.answer.was_stopped = true;
  return 1;
}

// Returns the certificates of CURL_CA_BUNDLE or SSL_CERT_FILE, in curl's order, else the system's.
// libcurl has the place of its own distribution compiled in, and the packages carry it to others.
std::string certificates() {
  for (const char* name : {"CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  for (const char* path : {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                           "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"}) {
    std::error_code code;
    if (std::filesystem::exists(path, code)) return path;
  }
  return "";
}

// Returns the host of a URL, in lower case, without user and port.
std::string host_of(const std::string& url) {
  std::string host = public_url(url);
  host = host.substr(host.find("://") + 3);
  host = host.substr(0, host.find('/'));
  return lower_case(host.starts_with('[') ? host.substr(0, host.find(']') + 1)
                                          : host.substr(0, host.find(':')));
}

bool is_hopeless(CURLcode code) {
  switch (code) {
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_TOO_MANY_REDIRECTS:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool is_loopback(const std::string& url) {
  const std::string host = host_of(url);
  return host == "localhost" || host == "[::1]" ||
         (host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string::npos);
}

HttpClient::HttpClient() : handle_(nullptr, curl_easy_cleanup) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  handle_.reset(curl_easy_init());
  RETINA_CHECK(handle_ != nullptr, "libcurl has no handle");
}

HttpAnswer HttpClient::get(const HttpRequest& request, const TakeBody& take,
                           const std::stop_token& stop) {
  CURL* const curl = handle_.get();
  const bool is_local = is_loopback(request.url);
  Exchange exchange{.take = take, .stop = stop, .curl = curl, .stays_here = is_local};
  std::array<char, CURL_ERROR_SIZE> reason{};
  set(curl, CURLOPT_URL, request.url.c_str());
  const bool is_plain = request.url.starts_with("http:");
  set(curl, CURLOPT_PROTOCOLS_STR, is_plain ? "http" : "https");
  set(curl, CURLOPT_REDIR_PROTOCOLS_STR, is_plain ? "http,https" : "https");
  set(curl, CURLOPT_FOLLOWLOCATION, request.follows_redirects ? 1L : 0L);
  set(curl, CURLOPT_MAXREDIRS, kMostRedirects);
  // Parallel ranges need a connection each, which HTTP/2 would join into one.
  set(curl, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set(curl, CURLOPT_NOSIGNAL, 1L);
  set(curl, CURLOPT_QUICK_EXIT, 1L);  // a stop does not wait for a name server
  set(curl, CURLOPT_ERRORBUFFER, reason.data());
  set(curl, CURLOPT_USERAGENT, cat("retina-batch/", kProjectVersion).c_str());
  set(curl, CURLOPT_CONNECTTIMEOUT, request.is_link_local ? kLinkLocalSeconds : kConnectSeconds);
  set(curl, CURLOPT_LOW_SPEED_LIMIT, kSlowBytesPerSecond);
  set(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(request.stall_s));
  set(curl, CURLOPT_BUFFERSIZE, 256L << 10);
  if (request.is_link_local || is_local) set(curl, CURLOPT_NOPROXY, "*");
  static const std::string bundle = certificates();
  if (!bundle.empty()) set(curl, CURLOPT_CAINFO, bundle.c_str());
  set(curl, CURLOPT_HEADERFUNCTION, on_header);
  set(curl, CURLOPT_HEADERDATA, &exchange);
  set(curl, CURLOPT_WRITEFUNCTION, on_body);
  set(curl, CURLOPT_WRITEDATA, &exchange);
  set(curl, CURLOPT_NOPROGRESS, 0L);
  set(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
  set(curl, CURLOPT_XFERINFODATA, &exchange);
  if (!request.sigv4.empty()) {
    set(curl, CURLOPT_AWS_SIGV4, request.sigv4.c_str());
    set(curl, CURLOPT_USERPWD, request.key.c_str());
  }
  if (request.range) {
    set(curl, CURLOPT_RANGE, cat(request.range->begin, "-", request.range->end - 1).c_str());
  }
  // A proxy that compresses the response would change the ranges. Not among the headers below,
  // which are signed.
  set(curl, CURLOPT_ACCEPT_ENCODING, "identity");
  curl_slist* list = nullptr;
  for (const std::string& header : request.headers) list = curl_slist_append(list, header.c_str());
  const std::unique_ptr<curl_slist, FreeHeaders> headers(list);
  set(curl, CURLOPT_HTTPHEADER, headers.get());

  const CURLcode code = curl_easy_perform(curl);
  HttpAnswer& answer = exchange.answer;
  if (!answer.problem.empty()) {
    answer.is_hopeless = true;
  } else if (code != CURLE_OK && answer.refusal.size() < kMostRefusalBytes) {
    answer.problem = reason.front() != '\0' ? reason.data() : curl_easy_strerror(code);
    answer.is_hopeless = is_hopeless(code);
  }
  curl_off_t retry_after_s = 0;
  if (curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &retry_after_s) == CURLE_OK) {
    answer.retry_after_s = retry_after_s;
  }
  // The reset keeps the connection and removes every pointer to this request. A handle that failed
  // early (no such host) refuses options on its next use.
  curl_easy_reset(curl);
  if (code != CURLE_OK) handle_.reset(curl_easy_init());
  if (exchange.thrown) std::rethrow_exception(exchange.thrown);
  return answer;
}

}  // namespace retina
