#include "shared/remote/remote_access.h"

#include <curl/curl.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/json.h"
#include "shared/base/text_encoding.h"
#include "shared/base/url.h"
#include "shared/remote/retries.h"

namespace retina {
namespace {

// The oldest version of Azure's interface that takes the tokens of an identity is 2017-11-09.
constexpr const char* kAzureVersion = "x-ms-version: 2021-08-06";
constexpr const char* kIdentityPath =
    "/metadata/identity/oauth2/token?api-version=2018-02-01&resource=https%3A%2F%2F"
    "storage.azure.com%2F";
constexpr const char* kHashOfNothing =  // SHA-256
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr std::int64_t kRenewBeforeSeconds = 300;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The first of them that is set.
std::string variable(std::initializer_list<const char*> names, const char* otherwise) {
  for (const char* name : names) {
    if (std::string value = variable(name); !value.empty()) return value;
  }
  return otherwise;
}

std::string without_slashes(std::string text) {
  while (text.ends_with('/')) text.pop_back();
  return text;
}

// All but RFC 3986's unreserved characters and slashes as %XX: what SigV4 signs, too.
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

// %XX resolved.
std::string decoded(const std::string& text) {
  int size = 0;
  const std::unique_ptr<char, decltype(&curl_free)> plain(
      curl_easy_unescape(nullptr, text.c_str(), static_cast<int>(text.size()), &size), curl_free);
  return plain ? std::string(plain.get(), static_cast<std::size_t>(size)) : text;
}

// "" or why libcurl will not take the URL.
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
  if (url.starts_with("http:") && !is_loopback(url)) {
    throw Error(ErrorKind::kUsage,
                cat(name_, ": is not encrypted: anybody on the way could read and change it"),
                "give an https:// URL; http:// is for this machine's own 127.0.0.1 and localhost");
  }
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
    keep_secret(base64(decoded(both)));  // as Authorization: Basic has them
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
  const std::string endpoint = variable("AZURE_STORAGE_ENDPOINT");
  base_ = cat(endpoint.empty() ? cat("https://", account, ".blob.core.windows.net")
                               : without_slashes(endpoint),
              encoded(path.substr(account_end)));
  headers_ = {kAzureVersion};
  query_ = variable("AZURE_STORAGE_SAS_TOKEN");
  if (query_.starts_with('?')) query_.erase(0, 1);
  has_identity_ = query_.empty();
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
  const std::string endpoint =
      without_slashes(variable({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}, ""));
  if (!endpoint.empty()) {
    base_ = cat(endpoint, "/", bucket);
  } else if (bucket.find('.') != std::string::npos) {
    // Amazon's certificate is for one label before its name.
    base_ = cat("https://s3.", region, ".amazonaws.com/", bucket);
  } else {
    base_ = cat("https://", bucket, ".s3.", region, ".amazonaws.com");
  }
  base_ += encoded(folder);
  const std::string id = variable("AWS_ACCESS_KEY_ID"), secret = variable("AWS_SECRET_ACCESS_KEY");
  if (id.empty() || secret.empty()) return;
  // S3 wants the hash of the body, none here, which libcurl 7.88 computes but does not send.
  headers_.push_back(cat("x-amz-content-sha256: ", kHashOfNothing));
  sigv4_ = cat("aws:amz:", region, ":s3");
  key_ = cat(id, ":", secret);
  keep_secret(secret);
  keep_secret(id);
  const std::string session = variable("AWS_SESSION_TOKEN");
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
  // Another thread may have asked for a new one meanwhile.
  if (request.headers.back().ends_with(token_)) token_ends_ = 0;
  return true;
}

// One thread asks IMDS, the others wait for it.
std::string RemoteAccess::bearer(const std::stop_token& stop) {
  const std::lock_guard lock(mutex_);
  if (!token_.empty() && std::time(nullptr) < token_ends_ - kRenewBeforeSeconds) return token_;
  const std::string client = variable("AZURE_CLIENT_ID");
  const HttpRequest request{
      .url = cat(without_slashes(
                     variable({"AZURE_POD_IDENTITY_AUTHORITY_HOST"}, "http://169.254.169.254")),
                 kIdentityPath, client.empty() ? "" : "&client_id=", encoded(client)),
      .headers = {"Metadata: true"},
      .is_link_local = true};
  HttpClient http;
  Retries retries({.tries = 4}, stop);
  for (;;) {
    std::string body;
    const HttpAnswer answer = http.get(
        request, [&](const HttpHead&, std::string_view bytes) { return body.append(bytes), true; },
        stop);
    std::string problem = answer.is_ok() ? "" : describe_answer(answer);
    if (problem.empty()) {
      try {
        const JsonFile json = JsonFile::parse(body, "token");
        token_ = json.root().at("access_token").as_string();
        token_ends_ = std::time(nullptr) + number_of(json.root().at("expires_in"));
        secrets_.push_back(token_);
        return token_;
      } catch (const Error&) {
        problem = "its answer has no token";
      }
    }
    if (!may_pass(answer) || !retries.wait(answer)) {
      throw Error(
          ErrorKind::kNoInput,
          cat(name_, ": the machine's managed identity gives no token (IMDS: ", problem, ")"),
          "set AZURE_STORAGE_SAS_TOKEN, or give the machine an identity with the role "
          "Storage Blob Data Reader");
    }
  }
}

void RemoteAccess::keep_secret(const std::string& text) {
  if (text.empty()) return;
  const rlimit none{};
  ::setrlimit(RLIMIT_CORE, &none);  // the file would have it
  const auto keep = [&](const std::string& secret) {
    secrets_.push_back(secret);
    if (std::string plain = decoded(secret); plain != secret) secrets_.push_back(std::move(plain));
  };
  keep(text);
  // Of a query, each value: a message may have it without the rest. Short ones say nothing.
  constexpr std::size_t kShort = 8;
  for (std::size_t at = text.find('='); at != std::string::npos; at = text.find('=', at + 1)) {
    const std::string value = text.substr(at + 1, text.find('&', at) - at - 1);
    if (value.size() >= kShort) keep(value);
  }
}

std::string RemoteAccess::without_secrets(std::string text) const {
  constexpr std::string_view kBlank = "***";
  const std::lock_guard lock(mutex_);
  for (const std::string& secret : secrets_) {
    for (std::size_t at = 0; (at = text.find(secret, at)) != std::string::npos;
         at += kBlank.size()) {
      text.replace(at, secret.size(), kBlank);
    }
  }
  return text;
}

std::string RemoteAccess::refusal_hint() const {
  switch (service_) {
    case Service::kAzure:
      return has_identity_
                 ? "give the machine's identity the role Storage Blob Data Reader, or set "
                   "AZURE_STORAGE_SAS_TOKEN"
                 : "AZURE_STORAGE_SAS_TOKEN needs the permission to read and a time that has not "
                   "ended";
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
