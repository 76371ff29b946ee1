// kill -9 at random moments, at random calls, and with a write half done: retina-train ends with
// the same bits. RETINA_KILLS=100 sets how often.
#include <filesystem>
#include <iostream>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "tests/mounts/kills.h"
#include "tests/mounts/train_fixture.h"

namespace retina {
namespace {

class TrainKill : public TrainFixture {};

TEST_F(TrainKill, EndsWithTheSameBitsWheneverItIsKilled) {
  RETINA_FAULTS_OR_SKIP();
  const std::vector<std::string> scratch = {"--scratch", folder_ / "local"};
  const std::string seen = folder_ / "seen", rule = "path=" + folder_.path();
  Kills kills({.default_count = 6});
  for (const bool with_scratch : {false, true}) {
    const auto more = with_scratch ? scratch : std::vector<std::string>{};
    const double start = seconds_now();
    ASSERT_EQ(run_process(faulty("any=count " + rule, command(more), seen)).exit_code, 0);
    kills.calibrate({.calls = std::stol(read_file(seen)), .seconds = seconds_now() - start});
    std::filesystem::remove_all(run());
    while (kills.wanted(with_scratch ? 1.0 : 0.5)) {
      const std::string moment = kills.kill(command(more), rule);
      if (kills.last_was_killed() && kills.one_more_before_the_end()) continue;
      SCOPED_TRACE(cat(moment, ", seed ", kills.seed()));
      expect_that_training_again_ends_well(more);
      ASSERT_FALSE(HasFailure());
      std::filesystem::remove_all(run());
    }
  }
  std::cout << kills.table();
}

}  // namespace
}  // namespace retina
