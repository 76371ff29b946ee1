// kill -9 at random moments, at random calls, and with a write half done: coco-pack ends with the
// same bytes. RETINA_KILLS=100 sets how often.
#include <csignal>
#include <filesystem>
#include <iostream>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "tests/mounts/kills.h"
#include "tests/mounts/pack_room.h"

namespace retina {
namespace {

namespace fs = std::filesystem;

class PackKill : public PackRoom {};

TEST_F(PackKill, EndsWithTheSameBytesWheneverItIsKilled) {
  RETINA_FAULTS_OR_SKIP();
  const std::vector<std::string> scratch = {"--scratch", folder_ / "local"};
  const std::string seen = folder_ / "seen";
  const std::string rule = "path=" + folder_.path();  // output and scratch
  Kills kills({.default_count = 20});
  for (const bool with_scratch : {false, true}) {
    const auto packing = command(with_scratch ? scratch : std::vector<std::string>{});
    const double start = seconds_now();
    ASSERT_EQ(run_process(faulty("any=count " + rule, packing, seen)).exit_code, 0);
    kills.calibrate({.calls = std::stol(read_file(seen)), .seconds = seconds_now() - start});
    fs::remove_all(set());
    while (kills.wanted(with_scratch ? 1.0 : 0.5)) {
      const std::string moment = kills.kill(packing, rule);
      if (kills.last_was_killed() && kills.one_more_before_the_end()) continue;
      SCOPED_TRACE(cat(moment, ", seed ", kills.seed()));
      expect_that_packing_again_ends_well();
      ASSERT_EQ(run_process(packing).exit_code, 0) << "finished";
      fs::remove_all(set());
      ASSERT_FALSE(HasFailure());
    }
  }
  std::cout << kills.table();
}

}  // namespace
}  // namespace retina
