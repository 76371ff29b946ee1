#include "tests/mounts/kills.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <random>

#include "shared/base/cat.h"
#include "tests/support/child_process.h"
#include "tests/support/faults/faulty.h"

namespace retina {
namespace {

constexpr double kKillTheContinuedRunToo = 0.4;

int wanted_count(const KillOptions& options) {
  const char* text = std::getenv("RETINA_KILLS");
  return text == nullptr ? options.default_count : std::atoi(text);
}

}  // namespace

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Kills::Kills(const KillOptions& options)
    : count_(wanted_count(options)), random_{.seed = std::random_device{}()} {}

std::string Kills::kill(const std::vector<std::string>& command, const std::string& rule) {
  const auto kind = static_cast<std::size_t>(draw() * 3);
  const auto call = static_cast<long>(draw() * static_cast<double>(calm_.calls));
  const double seconds = draw() * calm_.seconds;
  Count& count = counts_.at(kind);
  int code = 0;
  if (kind == 0) {
    ChildProcess child(command);
    child.run_until([] { return false; }, seconds);
    child.signal_group(SIGKILL);
    code = child.wait().exit_code;
  } else {
    const char* effect = kind == 1 ? "kill" : "tear";
    code = run_process(faulty(cat("any=", effect, " after=", call, " ", rule), command)).exit_code;
  }
  killed_ = code == 128 + SIGKILL;
  EXPECT_TRUE(killed_ || code == 0) << "exit code " << code;
  ++(killed_ ? count.killed : count.ended_before);
  return cat(count.moment, kind == 0 ? cat(" (", seconds, " s)") : cat(" (call ", call, ")"));
}

bool Kills::one_more_before_the_end() {
  return draw() < kKillTheContinuedRunToo;
}

int Kills::total() const {
  int sum = 0;
  for (const Count& count : counts_) sum += count.killed;
  return sum;
}

std::string Kills::table() const {
  std::string text = cat("seed ", seed(), ", ", total(), " kills\n");
  for (const Count& count : counts_) {
    text += cat("  ", count.moment, ": ", count.killed, " (", count.ended_before,
                " runs had ended before)\n");
  }
  return text;
}

}  // namespace retina
