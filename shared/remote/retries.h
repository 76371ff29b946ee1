// The rules for repeating a request, and for the pauses between.
#pragma once

#include <chrono>
#include <cstdint>
#include <stop_token>
#include <string>

#include "shared/remote/http_client.h"

namespace retina {

struct RetryPolicy {
  int tries = 10;             // in a row that bring nothing
  int unanswered_tries = 10;  // the same while the server does not answer
  std::chrono::milliseconds first_pause{500}, longest_pause{30'000};
};

// Counts tries, and pauses by exponential backoff with full jitter (Brooker, "Exponential Backoff
// and Jitter", AWS Architecture Blog 2015): uniform in [0, min(longest, first * 2^n)], so that many
// ranks do not come back together; never shorter than the server asks for.
class Retries {
 public:
  Retries(const RetryPolicy& policy, std::stop_token stop)
      : policy_(policy), stop_(std::move(stop)) {}

  // Begins anew, after a success.
  void reset() { failed_ = 0; }
  // Waits after a failure, at least as long as the server asks for; returns false if there is no
  // further try, or if it is stopped.
  bool wait(const HttpAnswer& answer);
  int failed() const { return failed_; }

 private:
  RetryPolicy policy_;
  std::stop_token stop_;
  int failed_ = 0;
};

// Returns true if the next try may succeed: after 408, 429, 5xx, and errors of a connection.
bool may_pass(const HttpAnswer& answer);

// Returns true if the service denies access: 401 and 403, and S3's 400 and 301 for a session that
// has ended, an unknown key or another region.
bool is_refusal(const HttpAnswer& answer);

// Returns "HTTP 403 AuthenticationFailed: Server failed to ...", "Connection reset by peer": one
// line. Of a refusal in XML it has only the code, the message, Azure's reason for refusing a
// signature and S3's region and endpoint, since the rest may repeat the request.
std::string describe_answer(const HttpAnswer& answer);

}  // namespace retina
