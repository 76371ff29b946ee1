#include "shared/remote/remote_access.h"

#include <curl/curl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <numeric>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/descriptor.h"
#include "shared/base/error.h"
#include "shared/base/json.h"
#include "shared/base/printable.h"
#include "shared/base/signals.h"
#include "shared/base/text_encoding.h"
#include "shared/base/url.h"
#include "shared/remote/retries.h"

namespace retina {
namespace {

// API version. The oldest one that accepts the tokens of an identity is 2017-11-09.
constexpr const char* kAzureVersion = "x-ms-version: 2021-08-06";
constexpr const char* kIdentityHost = "http://169.254.169.254";  // link-local: no way to listen on
constexpr const char* kIdentityPath =
    "/metadata/identity/oauth2/"
    "token?api-version=2018-02-01&resource=https%3A%2F%2Fstorage.azure.com%2F";
constexpr const char* kHashOfNothing =  // SHA-256
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr std::int64_t kRenewBeforeSeconds = 300;
constexpr std::size_t kMostTokenBytes = 64 << 10;  // of IMDS's answer

// Returns the first of the variables that is set.
std::string variable(std::initializer_list<const char*> names, const char* otherwise = "") {
  for (const char* name : names) {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    if (one_line(value) == value) return value;  // a line break would begin another header
    throw Error(ErrorKind::kUsage, cat(name, ": holds a line break or another control character"),
                "set it to one line");
  }
  return otherwise;
}

std::string without_slashes(std::string text) {
  while (text.ends_with('/')) text.pop_back();
  return text;
}

void check_encrypted(const std::string& subject, const std::string& url) {
  if (url.starts_with("https://") || (url.starts_with("http://") && is_loopback(url))) return;
  throw Error(ErrorKind::kUsage,
              cat(subject, ": is not encrypted: anybody on the way could read and change it (got ",
                  public_url(url), ")"),
              "give an https:// URL; http:// is for this machine's own 127.0.0.1 and localhost");
}

// Returns the URL of a service from the first of these variables that is set.
std::string endpoint(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const std::string url = without_slashes(variable({name}));
    if (url.empty()) continue;
    check_encrypted(name, url);
    return url;
  }
  return "";
}

// Keeps this process's memory out of core files, and from a handler of core_pattern, which no limit
// stops. PR_SET_DUMPABLE would also keep it from Open MPI's ranks, which read each other's memory
// (CMA).
void keep_memory_out_of_cores() {
  const rlimit none{};
  ::setrlimit(RLIMIT_CORE, &none);
  const Descriptor filter("/proc/self/coredump_filter", O_WRONLY);
  if (!filter || ::write(filter.get(), "0", 1) != 1) ::prctl(PR_SET_DUMPABLE, 0);
}

// Returns `path` with all but RFC 3986's unreserved characters and slashes as %XX: the form that
// SigV4 signs, too.
std::string encoded(const std::string& path) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string text;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) || std::string_view("-._~/").find(c) != std::string_view::npos) {
      text += c;
    } else {
      text += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return text;
}

// Returns `text` with %XX resolved.
std::string decoded(const std::string& text) {
  int size = 0;
  const std::unique_ptr<char, decltype(&curl_free)> plain(
      curl_easy_unescape(nullptr, text.c_str(), static_cast<int>(text.size()), &size), curl_free);
  return plain ? std::string(plain.get(), static_cast<std::size_t>(size)) : text;
}

// A text with its escapes resolved, %XX in any case and applied any number of times, + as the space
// that it is in a query; and where in the text each character begins, and the end.
struct Unescaped {
  std::string text{};
  std::vector<std::size_t> begins{};
};
Unescaped unescaped(const std::string& given) {
  Unescaped now{.text = given, .begins = std::vector<std::size_t>(given.size() + 1)};
  std::iota(now.begins.begin(), now.begins.end(), std::size_t{0});
  for (bool has_changed = true; std::exchange(has_changed, false);) {
    Unescaped next;
    for (std::size_t at = 0; at < now.text.size();) {
      const std::string digits = now.text[at] == '%' ? now.text.substr(at + 1, 2) : "";
      const bool is_escape =
          digits.size() == 2 && digits.find_first_not_of("0123456789ABCDEFabcdef") == digits.npos;
      next.text += is_escape ? static_cast<char>(std::stoi(digits, nullptr, 16)) : now.text[at];
      next.begins.push_back(now.begins[at]);
      at += is_escape ? 3 : 1;
      has_changed |= is_escape;
    }
    next.begins.push_back(given.size());
    now = std::move(next);
  }
  std::replace(now.text.begin(), now.text.end(), '+', ' ');
  return now;
}

// Returns "" or why libcurl rejects the URL.
std::string syntax_problem(const std::string& url) {
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> parsed(curl_url(), curl_url_cleanup);
  const CURLUcode code = curl_url_set(parsed.get(), CURLUPART_URL, url.c_str(), 0);
  return code == CURLUE_OK ? "" : curl_url_strerror(code);
}

std::int64_t number_of(const JsonView& view) {
  if (view.raw().IsInt64()) return view.as_int();
  const std::string text = view.as_string();
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

RemoteAccess::RemoteAccess(const std::string& given) : name_(public_url(given)) {
  const std::string url = with_secrets(given);
  const std::size_t colon = url.find("://");
  const std::string scheme = lower_case(url.substr(0, colon));
  const std::string path = name_.substr(std::min(name_.size(), colon + 3));
  if (scheme == "azure") {
    open_azure(path);
  } else if (scheme == "s3") {
    open_s3(path);
  } else if (scheme == "https" || scheme == "http") {
    name_.replace(0, colon, scheme);
    open_http(scheme + url.substr(colon));
  } else {
    throw Error(
        ErrorKind::kUsage,
        cat(name_, ": cannot be read (got ", scheme, "://, want https://, azure:// or s3://)"),
        "give such a URL, or a folder");
  }
}

void RemoteAccess::open_http(const std::string& url) {
  check_encrypted(name_, url);
  const std::size_t end = url.find_first_of("?#");
  base_ = without_slashes(url.substr(0, end));
  if (const std::string problem = syntax_problem(base_); !problem.empty()) {
    throw Error(ErrorKind::kUsage, cat(name_, ": is not a URL (", problem, ")"),
                "in a URL a space is written %20, and in a password @ is %40, : is %3A, / is %2F");
  }
  const std::size_t user = base_.find("://") + 3;
  const std::string authority = base_.substr(user, base_.find('/', user) - user);
  if (const std::size_t user_end = authority.find('@'); user_end != std::string::npos) {
    const std::string both = authority.substr(0, user_end);
    keep_secret(both);
    keep_secret(both.substr(both.find(':') + 1));
    keep_secret(base64(decoded(both)));  // the form in Authorization: Basic
  }
  if (end != std::string::npos && url[end] == '?') {
    query_ = url.substr(end + 1, url.find('#', end) - end - 1);
  }
  keep_secret(query_);
  keep_secret(base_ == name_ ? "" : base_);
}

void RemoteAccess::open_azure(const std::string& path) {
  const std::size_t account_end = path.find('/');
  if (account_end == 0 || account_end == std::string::npos || account_end + 1 == path.size()) {
    throw Error(ErrorKind::kUsage,
                cat(name_, ": is incomplete (want azure://ACCOUNT/CONTAINER/PATH)"),
                "give account, container and folder");
  }
  service_ = Service::kAzure;
  const std::string account = path.substr(0, account_end);
  const std::string host = endpoint({"AZURE_STORAGE_ENDPOINT"});
  base_ = cat(host.empty() ? cat("https://", account, ".blob.core.windows.net") : host,
              encoded(path.substr(account_end)));
  headers_ = {kAzureVersion};
  query_ = variable({"AZURE_STORAGE_SAS_TOKEN"});
  if (query_.starts_with('?')) query_.erase(0, 1);
  has_identity_ = query_.empty();
  if (has_identity_) keep_memory_out_of_cores();  // before the first token
  keep_secret(query_);
}

void RemoteAccess::open_s3(const std::string& path) {
  const std::size_t bucket_end = path.find('/');
  const std::string bucket = path.substr(0, bucket_end);
  if (bucket.empty()) {
    throw Error(ErrorKind::kUsage, cat(name_, ": is incomplete (want s3://BUCKET/PATH)"),
                "give bucket and folder");
  }
  service_ = Service::kS3;
  const std::string folder = bucket_end == std::string::npos ? "" : path.substr(bucket_end);
  const std::string region = variable({"AWS_REGION", "AWS_DEFAULT_REGION"}, "us-east-1");
  const std::string host = endpoint({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
  if (!host.empty()) {
    base_ = cat(host, "/", bucket);
  } else if (bucket.find('.') != std::string::npos) {
    // Amazon's certificate covers one label before its name.
    base_ = cat("https://s3.", region, ".amazonaws.com/", bucket);
  } else {
    base_ = cat("https://", bucket, ".s3.", region, ".amazonaws.com");
  }
  base_ += encoded(folder);
  const std::string id = variable({"AWS_ACCESS_KEY_ID"}),
                    secret = variable({"AWS_SECRET_ACCESS_KEY"});
  if (id.empty() || secret.empty()) return;
  // S3 requires the hash of the body, none here, which libcurl 7.88 computes but does not send.
  headers_.push_back(cat("x-amz-content-sha256: ", kHashOfNothing));
  sigv4_ = cat("aws:amz:", region, ":s3");
  key_ = cat(id, ":", secret);
  keep_secret(secret);
  keep_secret(id);
  const std::string session = variable({"AWS_SESSION_TOKEN"});
  if (session.empty()) return;
  headers_.push_back("x-amz-security-token: " + session);
  keep_secret(session);
}

HttpRequest RemoteAccess::request(const std::string& file, const std::stop_token& stop) {
  HttpRequest request{.url = cat(base_, "/", encoded(file), query_.empty() ? "" : "?", query_),
                      .headers = headers_,
                      .sigv4 = sigv4_,
                      .key = key_,
                      .follows_redirects = service_ == Service::kHttp};
  if (has_identity_) request.headers.push_back("Authorization: Bearer " + bearer(stop));
  return request;
}

bool RemoteAccess::renew(const HttpRequest& request) {
  if (!has_identity_) return false;
  const std::lock_guard lock(mutex_);
  // Another thread may have renewed the token meanwhile.
  if (request.headers.back().ends_with(token_)) token_ends_ = 0;
  return true;
}

// Returns the token; one thread asks IMDS, the others wait for it.
std::string RemoteAccess::bearer(const std::stop_token& stop) {
  const std::lock_guard lock(mutex_);
  if (!token_.empty() && std::time(nullptr) < token_ends_ - kRenewBeforeSeconds) return token_;
  // IMDS, or a service that a pod identity puts in its place.
  const std::string client = variable({"AZURE_CLIENT_ID"});
  const std::string host = endpoint({"AZURE_POD_IDENTITY_AUTHORITY_HOST"});
  const HttpRequest request{.url = cat(host.empty() ? kIdentityHost : host, kIdentityPath,
                                       client.empty() ? "" : "&client_id=", encoded(client)),
                            .headers = {"Metadata: true"},
                            .is_link_local = true};
  HttpClient http;
  Retries retries({.tries = 4}, stop);
  for (;;) {
    std::string body;
    const HttpAnswer answer = http.get(
        request,
        [&](const HttpHead&, std::string_view bytes) {
          return body.append(bytes).size() < kMostTokenBytes;
        },
        stop);
    std::string problem = answer.is_ok() || answer.was_stopped ? "" : describe_answer(answer);
    if (problem.empty()) {
      try {
        const JsonFile json = JsonFile::parse(body, "token");
        const std::string token = json.root().at("access_token").as_string();
        if (one_line(token) != token) json.root().at("access_token").fail("has a line break");
        token_ends_ = std::time(nullptr) + number_of(json.root().at("expires_in"));
        keep_secret(token_ = token);
        return token_;
      } catch (const Error&) {
        problem = "its answer has no token";
      }
    }
    if (!may_pass(answer) || !retries.wait(answer)) {
      check_stop(cat(name_, ": the token of the machine's managed identity"), stop);
      throw Error(
          ErrorKind::kNoInput,
          cat(name_, ": the machine's managed identity gives no token (IMDS: ", problem, ")"),
          "set AZURE_STORAGE_SAS_TOKEN, or give the machine an identity with the role Storage Blob "
          "Data Reader");
    }
  }
}

void RemoteAccess::keep_secret(const std::string& text) {
  if (text.empty()) return;
  keep_memory_out_of_cores();
  secrets_.push_back(unescaped(text).text);
  // Each value of a query counts alone: a message may have it without the rest. Short ones reveal
  // nothing.
  constexpr std::size_t kShort = 8;
  for (std::size_t at = text.find('='); at != std::string::npos; at = text.find('=', at + 1)) {
    const std::string value = text.substr(at + 1, text.find('&', at) - at - 1);
    if (value.size() >= kShort) secrets_.push_back(unescaped(value).text);
  }
}

std::string RemoteAccess::without_secrets(std::string text) const {
  const std::lock_guard lock(mutex_);
  const Unescaped plain = unescaped(text);
  std::string shown;
  for (std::size_t at = 0; at < plain.text.size();) {
    std::size_t size = 0;  // of the longest secret here
    for (const std::string& secret : secrets_) {
      if (plain.text.compare(at, secret.size(), secret) == 0) size = std::max(size, secret.size());
    }
    const std::size_t begin = plain.begins[at];
    shown += size > 0 ? "***" : text.substr(begin, plain.begins[at + 1] - begin);
    at += std::max<std::size_t>(size, 1);
  }
  return shown;
}

std::string RemoteAccess::refusal_hint() const {
  switch (service_) {
    case Service::kAzure:
      return has_identity_ ? "give the machine's identity the role Storage Blob Data Reader, or "
                             "set AZURE_STORAGE_SAS_TOKEN"
                           : "AZURE_STORAGE_SAS_TOKEN needs the permission to read and a time that "
                             "has not ended";
    case Service::kS3:
      return key_.empty() ? "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
                          : "the key in AWS_ACCESS_KEY_ID needs s3:GetObject there, and AWS_REGION "
                            "must be the bucket's";
    case Service::kHttp:
      break;
  }
  return "give a URL that may be read, with its query in quotes";
}

}  // namespace retina
