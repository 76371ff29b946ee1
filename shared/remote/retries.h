// When a request is made again, and after which pause.
#pragma once

#include <chrono>
#include <cstdint>
#include <stop_token>
#include <string>

#include "shared/remote/http_client.h"

namespace retina {

struct RetryPolicy {
  int tries = 10;             // in a row that bring nothing
  int unanswered_tries = 10;  // of them by a server that says nothing at all
  std::chrono::milliseconds first_pause{500}, longest_pause{30'000};
};

// Pauses by exponential backoff with full jitter (Brooker, "Exponential Backoff and Jitter", AWS
// Architecture Blog 2015): uniform in [0, min(longest, first * 2^n)], so that many ranks do not
// come back together; never shorter than the server asks for.
class Retries {
 public:
  Retries(const RetryPolicy& policy, std::stop_token stop)
      : policy_(policy), stop_(std::move(stop)) {}

  // Something came: begins anew.
  void reset() { failed_ = 0; }
  // After a failure: waits, as long as the server asks for at least, and returns false when there
  // is no further try, or when it is stopped.
  bool wait(const HttpAnswer& answer);
  int failed() const { return failed_; }

 private:
  RetryPolicy policy_;
  std::stop_token stop_;
  int failed_ = 0;
};

// Whether the next try may go better: after 408, 429, 5xx, and what happens to a connection.
bool may_pass(const HttpAnswer& answer);

// Whether the service does not let us: 401 and 403, and S3's 400 and 301 of a session that has
// ended, an unknown key or another region.
bool is_refusal(const HttpAnswer& answer);

// "HTTP 403 AuthenticationFailed: Server failed to ...", "Connection reset by peer": one line, of a
// refusal in XML its code, its message, Azure's reason for refusing a signature and S3's region and
// endpoint alone, since the rest may repeat the request.
std::string describe_answer(const HttpAnswer& answer);

}  // namespace retina
