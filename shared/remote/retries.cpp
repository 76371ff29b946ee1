#include "shared/remote/retries.h"

#include <algorithm>
#include <random>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/printable.h"
#include "shared/base/signals.h"

namespace retina {
namespace {

constexpr std::int64_t kLongestWishSeconds = 600;

std::chrono::milliseconds jittered(std::chrono::milliseconds most) {
  // Pauses of ranks must differ, and no result depends on them.
  static thread_local std::mt19937_64 random{std::random_device{}()};
  return std::chrono::milliseconds(
      std::uniform_int_distribution<std::int64_t>(0, most.count())(random));
}

// Returns the text of <NAME>...</NAME>; empty: there is none.
std::string element(const std::string& xml, const std::string& name) {
  const std::string open = cat("<", name, ">");
  const std::size_t at = xml.find(open);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + open.size();
  return xml.substr(begin, xml.find('<', begin) - begin);
}

}  // namespace

bool Retries::wait(const HttpAnswer& answer) {
  const bool is_answered = answer.head.status != 0;
  const int tries = is_answered ? policy_.tries : std::min(policy_.tries, policy_.unanswered_tries);
  if (++failed_ >= tries) return false;
  const auto grown = policy_.first_pause * (std::int64_t{1} << std::min(failed_ - 1, 20));
  const std::chrono::milliseconds pause = std::max(
      jittered(std::min(policy_.longest_pause, grown)),
      std::chrono::milliseconds(1000 * std::min(answer.retry_after_s, kLongestWishSeconds)));
  retina::pause(pause, stop_);
  return !is_stopping(stop_);
}

bool may_pass(const HttpAnswer& answer) {
  const int status = answer.head.status;
  if (status >= 400) return status == 408 || status == 429 || status >= 500;
  return !answer.is_hopeless && (status < 300 || !answer.problem.empty());
}

bool is_refusal(const HttpAnswer& answer) {
  const int status = answer.head.status;
  if (status == 401 || status == 403) return true;
  const std::string code = element(answer.refusal, "Code");
  if (status == 301) return code == "PermanentRedirect";
  return status == 400 &&
         (code == "ExpiredToken" || code == "InvalidToken" || code == "TokenRefreshRequired" ||
          code == "InvalidAccessKeyId" || code == "AuthorizationHeaderMalformed");
}

std::string describe_answer(const HttpAnswer& answer) {
  if (answer.head.status < 300 || !answer.problem.empty()) return escaped(answer.problem);
  const std::string code = element(answer.refusal, "Code");
  std::string message = element(answer.refusal, "Message");
  message = message.substr(0, message.find('\n'));  // Azure adds request id and time
  std::string text = cat("HTTP ", answer.head.status, code.empty() ? "" : " ", printable(code),
                         message.empty() ? "" : ": ", escaped(message));
  // Azure's reason for refusing a signature, without the signed text; S3's place of the bucket.
  const std::string detail = element(answer.refusal, "AuthenticationErrorDetail");
  const std::size_t end = std::min(detail.find('\n'), detail.find(" String to sign"));
  if (!detail.empty()) text += cat(" ", escaped(detail.substr(0, end)));
  for (const char* name : {"Region", "Endpoint"}) {
    const std::string value = element(answer.refusal, name);
    if (!value.empty()) text += cat(", ", name, ": ", printable(value));
  }
  return text;
}

}  // namespace retina
