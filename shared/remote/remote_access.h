// From the URL of a folder to requests for its files: the service that it names, and the
// credentials for it, which come from the environment and the machine alone.
//
//   https://HOST/PATH[?QUERY]      as it is, the query behind each file (a SAS of Azure, say)
//   http://LOOPBACK/PATH           the same; any other host would see credentials and could be
//                                  anybody, so that http to it is refused
//   azure://ACCOUNT/CONTAINER/PATH https://ACCOUNT.blob.core.windows.net, or the endpoint in
//                                  AZURE_STORAGE_ENDPOINT, by the SAS in AZURE_STORAGE_SAS_TOKEN or
//                                  else by a token of the machine's managed identity, from IMDS
//                                  (AZURE_CLIENT_ID: which of several)
//   s3://BUCKET/PATH               https://BUCKET.s3.REGION.amazonaws.com, or below the endpoint in
//                                  AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, signed (SigV4) with
//                                  AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN
//                                  for AWS_REGION or AWS_DEFAULT_REGION; unsigned without a key
#pragma once

#include <cstdint>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "shared/remote/http_client.h"

namespace retina {

class RemoteAccess {
 public:
  // Uses the secrets that keep_secrets() remembers of the URL. From the first credential on the
  // process leaves no core file. Throws kUsage: a URL of another kind, or without its parts; a
  // variable with a line break, or with an endpoint of plain http elsewhere.
  explicit RemoteAccess(const std::string& url);
  RemoteAccess(const RemoteAccess&) = delete;
  RemoteAccess& operator=(const RemoteAccess&) = delete;

  // Returns the folder's public_url(), for people.
  const std::string& name() const { return name_; }

  // Returns the request for a file of the folder, `file` as it is named there. The first one with a
  // managed identity, and one shortly before its token ends, asks IMDS. Throws kNoInput: it gives
  // none. Thread-safe.
  HttpRequest request(const std::string& file, const std::stop_token& stop);
  // Returns true after a 401 to `request` if another request has other credentials, as those of a
  // managed identity, which asks for a new token.
  bool renew(const HttpRequest& request);

  // Returns a service's or a library's message without anything that request() has put into
  // requests, whether unchanged or with other characters escaped.
  std::string without_secrets(std::string text) const;
  // Returns a hint for a refusal.
  std::string refusal_hint() const;

 private:
  enum class Service { kHttp, kAzure, kS3 };
  void open_http(const std::string& url);
  void open_azure(const std::string& path);
  void open_s3(const std::string& path);
  std::string bearer(const std::stop_token& stop);
  void keep_secret(const std::string& text);

  std::string name_;
  Service service_ = Service::kHttp;
  std::string base_{}, query_{};  // URL of the folder, and the query after each file's
  std::string sigv4_{}, key_{};
  std::vector<std::string> headers_{};
  bool has_identity_ = false;
  mutable std::mutex mutex_{};
  std::vector<std::string> secrets_{};
  std::string token_{};          // the managed identity's
  std::int64_t token_ends_ = 0;  // Unix time
};

}  // namespace retina
