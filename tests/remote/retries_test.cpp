#include "shared/remote/retries.h"

#include <gtest/gtest.h>

namespace retina {
namespace {

constexpr RetryPolicy kPolicy = {
    .tries = 4, .unanswered_tries = 2, .first_pause = std::chrono::milliseconds(0)};

int pauses(Retries& retries, int status) {
  int count = 0;
  while (retries.wait({.head = {.status = status}})) ++count;
  return count;
}

TEST(Retries, AServerThatIsBusyGetsMoreTriesThanOneThatSaysNothing) {
  Retries busy(kPolicy, {}), silent(kPolicy, {});
  EXPECT_EQ(pauses(busy, 503), 3);
  EXPECT_EQ(pauses(silent, 0), 1);
}

TEST(Retries, BeginAnewWhenSomethingCame) {
  Retries retries(kPolicy, {});
  EXPECT_EQ(pauses(retries, 503), 3);
  retries.reset();
  EXPECT_EQ(pauses(retries, 503), 3);
}

}  // namespace
}  // namespace retina
