// kill -9 at random moments, at random calls, and with a write half done: coco-pack ends with the
// same bytes. RETINA_KILLS=100 sets how often.
#include <csignal>
#include <filesystem>
#include <iostream>

#include "preprocess/output_folder.h"
#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "tests/mounts/kills.h"
#include "tests/mounts/pack_fixture.h"

namespace retina {
namespace {

namespace fs = std::filesystem;

class PackKill : public PackFixture {
 protected:
  // The old set or the new one, in its place or (the new one) in the journal.
  void expect_a_whole_set(const std::map<std::string, std::string>& old) const {
    auto left = folder_content(set());
    std::erase_if(left, [](const auto& file) { return file.first.starts_with(".packing/"); });
    if (left == old || left == calm_) return;
    EXPECT_FALSE(path_exists(set() + "/manifest.json")) << "a mixture";
    fs::copy(set(), folder_ / "copy", fs::copy_options::recursive);
    EXPECT_TRUE(publish_whole_set(folder_ / "copy"));
    EXPECT_EQ(folder_content(folder_ / "copy"), calm_);
    fs::remove_all(folder_ / "copy");
  }
};

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

TEST_F(PackKill, AnOverwriteLeavesTheOldOrTheNewSetWheneverItIsKilled) {
  RETINA_FAULTS_OR_SKIP();
  const std::string seen = folder_ / "seen", rule = "path=" + folder_.path();
  ASSERT_EQ(run_process(command({"--max-side", "60"})).exit_code, 0);
  fs::rename(set(), folder_ / "old");
  const auto old = folder_content(folder_ / "old");
  const auto begin_with_the_old_set = [&] {
    fs::remove_all(set());
    fs::copy(folder_ / "old", set(), fs::copy_options::recursive);
  };
  Kills kills({.default_count = 20});
  for (const bool with_scratch : {false, true}) {
    std::vector<std::string> more = {"--overwrite"};
    if (with_scratch) more.insert(more.end(), {"--scratch", folder_ / "local"});
    const auto overwriting = command(more);
    begin_with_the_old_set();
    const double start = seconds_now();
    ASSERT_EQ(run_process(faulty("any=count " + rule, overwriting, seen)).exit_code, 0);
    kills.calibrate({.calls = std::stol(read_file(seen)), .seconds = seconds_now() - start});
    begin_with_the_old_set();
    while (kills.wanted(with_scratch ? 1.0 : 0.5)) {
      const std::string moment = kills.kill(overwriting, rule);
      SCOPED_TRACE(cat(moment, ", seed ", kills.seed()));
      expect_a_whole_set(old);
      if (kills.last_was_killed() && kills.one_more_before_the_end()) continue;
      const ProcessResult again = run_process(overwriting);
      EXPECT_EQ(again.exit_code, 0) << again.err;
      EXPECT_EQ(folder_content(set()), calm_);
      ASSERT_FALSE(HasFailure());
      begin_with_the_old_set();
    }
  }
  std::cout << kills.table();
}

}  // namespace
}  // namespace retina
