// coco-pack as a user runs it: exit codes, one line on stderr, and what is left on the disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/numeric/random.h"
#include "shared/shard/shard_tree.h"
#include "tests/preprocess/small_classes.h"
#include "tests/preprocess/small_coco.h"
#include "tests/support/child_process.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class CocoPack : public testing::Test {
 protected:
  CocoPack() { coco_.write(); }

  std::vector<std::string> command(const std::string& output,
                                   const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {
        "coco-pack", "--annotations",    folder_ / "annotations.json",
        "--images",  folder_ / "images", "--output",
        output,      "--shard-size",     "64KiB"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  // Runs it and expects a refusal in one line; returns the line.
  static std::string refusal(const std::vector<std::string>& arguments, int exit_code) {
    const ProcessResult result = run_process(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    return result.err;
  }

  TestFolder folder_;
  SmallCoco coco_{.folder = folder_.path(), .good_count = 60, .with_bad_images = true};
};

// The first file that is opened would take the place of a closed stream, and the log go into it.
TEST_F(CocoPack, WithoutStandardStreamsWritesTheSameSet) {
  ASSERT_EQ(run_process(command(folder_ / "set")).exit_code, 0);
  EXPECT_EQ(run_without_streams(command(folder_ / "other")).exit_code, 0);
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "set")) {
    const std::string name = entry.path().filename();
    if (!entry.is_regular_file()) continue;
    EXPECT_EQ(read_file(folder_ / "other/" + name), read_file(folder_ / "set/" + name)) << name;
  }
}

TEST_F(CocoPack, PacksVerifiesAndInspects) {
  const ProcessResult packed = run_process(command(folder_ / "set"));
  EXPECT_EQ(packed.exit_code, 0) << packed.err;
  EXPECT_THAT(packed.out, HasSubstr("60 (10 without boxes, 7 quarantined)"));
  EXPECT_THAT(packed.out, HasSubstr("damaged 2, format 1, missing 2, name 1, size 1"));
  EXPECT_THAT(packed.err, HasSubstr("warning: 7 of 67 images are quarantined"));

  const ProcessResult again = run_process(command(folder_ / "set", {"--threads", "3"}));
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_THAT(again.out, HasSubstr("already finished"));
  EXPECT_EQ(std::count(again.out.begin(), again.out.end(), '\n'), 1);

  const ProcessResult verified = run_process({"coco-pack", "--verify", folder_ / "set"});
  EXPECT_EQ(verified.exit_code, 0);
  EXPECT_THAT(verified.out, HasSubstr("intact, 60 images"));

  const ProcessResult inspected = run_process({"coco-pack", "--inspect", folder_ / "set", "--image",
                                               "id=4", "--draw", folder_ / "drawn.jpg"});
  EXPECT_EQ(inspected.exit_code, 0) << inspected.err;
  EXPECT_THAT(inspected.out, HasSubstr("b/3.jpg (image 4): "));
  EXPECT_GT(file_size_bytes(folder_ / "drawn.jpg"), 100U);
}

// Whoever makes a shard makes its hashes, too.
TEST_F(CocoPack, VerifyAnswersNoToAShardMadeToCrashIt) {
  run_process(command(folder_ / "set"));
  Manifest manifest = read_manifest(folder_ / "set");
  const std::string path = folder_ / "set/" + manifest.shards[0].file.name;
  std::string bytes = read_file(path);
  const auto u16 = [&](std::size_t at) {
    return static_cast<std::size_t>(static_cast<unsigned char>(bytes[at])) |
           static_cast<std::size_t>(static_cast<unsigned char>(bytes[at + 1])) << 8;
  };
  std::size_t leaf = 2 * 4096;
  while (u16(leaf + 10) != 2) leaf += 4096;
  // The first record of the leaf claims 2 GiB.
  bytes.replace(leaf + u16(leaf + 16), 4, "\xff\xff\xff\x7f");
  write_file_atomically(path, bytes);
  manifest.shards[0].file.xxh3 = xxh3_file(path);
  manifest.shards[0].tree_xxh3 = shard_tree_xxh3(path);
  write_file_atomically(folder_ / "set/manifest.json", encode_manifest(manifest));
  const ProcessResult result = run_process({"coco-pack", "--verify", folder_ / "set"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_THAT(result.out, HasSubstr("has record 0 outside the file"));
}

TEST_F(CocoPack, NamesWhatIsWrongWithTheCommandLine) {
  EXPECT_THAT(refusal({"coco-pack", "--output", "x"}, 64), HasSubstr("--annotations is missing"));
  EXPECT_THAT(refusal(command("x", {"--quality", "5"}), 64), HasSubstr("--max-side"));
  EXPECT_THAT(refusal(command("x", {"--quality", "0", "--max-side", "9"}), 64),
              HasSubstr("want 1 to 100"));
  EXPECT_THAT(refusal(command("x", {"--shard-sizes", "1GiB"}), 64), HasSubstr("--shard-size"));
  EXPECT_THAT(refusal(command("x", {"--verify", "y"}), 64), HasSubstr("exclude each other"));
  EXPECT_THAT(refusal({"coco-pack", "--inspect", "x", "--draw", "y.jpg"}, 64),
              HasSubstr("--image"));
  EXPECT_FALSE(path_exists("x"));
}

TEST_F(CocoPack, NamesBadInputsAndLeavesNothing) {
  const std::string set = folder_ / "set";
  auto gone = command(set);
  gone[4] = folder_ / "nowhere";
  refusal(gone, 66);
  gone = command(set);
  gone[2] = folder_ / "nowhere.json";
  refusal(gone, 66);
  refusal({"coco-pack", "--verify", folder_ / "nowhere"}, 66);
  refusal({"coco-pack", "--inspect", folder_ / "images"}, 66);

  const std::string json = read_file(folder_ / "annotations.json");
  std::ofstream(folder_ / "annotations.json") << json.substr(0, json.size() / 2);
  EXPECT_THAT(refusal(command(set), 65), HasSubstr("annotations.json"));
  std::ofstream(folder_ / "annotations.json") << "{\"images\": []}";
  refusal(command(set), 65);
  EXPECT_FALSE(path_exists(set));
}

TEST_F(CocoPack, AnOutputThatCannotBeMadeIs73) {
  refusal(command("/proc/nowhere/set"), 73);
  std::ofstream(folder_ / "file") << "x";
  refusal(command(folder_ / "file"), 73);
  EXPECT_EQ(read_file(folder_ / "file"), "x");
}

TEST_F(CocoPack, AFullDiskIs74AndTheNextRunContinues) {
  // No file may grow past 32 KiB: as if the disk were full.
  std::string line = "ulimit -f 32; exec " RETINA_BIN_DIR "/coco-pack";
  for (const std::string& argument : command(folder_ / "set")) {
    if (argument != "coco-pack") line += " '" + argument + "'";
  }
  EXPECT_THAT(refusal({"/bin/bash", "-c", line}, 74), HasSubstr("writing failed"));
  EXPECT_FALSE(path_exists(folder_ / "set/manifest.json"));
  refusal({"coco-pack", "--inspect", folder_ / "set"}, 66);
  EXPECT_EQ(run_process(command(folder_ / "set")).exit_code, 0);
  EXPECT_EQ(run_process({"coco-pack", "--verify", folder_ / "set"}).exit_code, 0);
}

// Kills that come too late do not count: another folder is tried, until enough have hit.
// `command_to` gives the command that packs into a folder.
void expect_kills_change_nothing(
    const TestFolder& folder,
    const std::function<std::vector<std::string>(const std::string&)>& command_to) {
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(run_process(command_to(folder / "whole")).exit_code, 0);
  const double whole_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const auto expected = folder_content(folder / "whole");
  const RandomStream random{.seed = 11};
  constexpr int kLocked = 78;  // while the processes of a killed --parts die
  int kills = 0;
  for (std::uint64_t round = 0; round < 200 && kills < 8; ++round) {
    const std::string set = folder / cat("set", round);
    for (std::uint64_t attempt = 0; attempt < 3; ++attempt) {
      ChildProcess child(command_to(set));
      child.run_until([] { return false; }, whole_seconds * random.unit(round * 3 + attempt));
      child.signal(SIGKILL);
      const ProcessResult result = child.wait();
      if (result.exit_code == 0) break;
      if (result.exit_code == kLocked) continue;
      ASSERT_EQ(result.exit_code, 128 + SIGKILL) << result.err;
      ++kills;
    }
    ProcessResult last = run_process(command_to(set));
    for (int i = 0; i < 20 && last.exit_code == kLocked; ++i) last = run_process(command_to(set));
    ASSERT_EQ(last.exit_code, 0) << last.err;
    ASSERT_EQ(folder_content(set), expected) << "round " << round;
  }
  EXPECT_GE(kills, 8);
}

TEST_F(CocoPack, KilledAtRandomMomentsItEndsWithTheSameBytes) {
  expect_kills_change_nothing(folder_, [&](const std::string& set) { return command(set); });
}

// Shards end inside images.
TEST_F(CocoPack, OfTilesKilledAtRandomMomentsTheSetEndsWithTheSameBytes) {
  expect_kills_change_nothing(folder_, [&](const std::string& set) {
    return command(set, {"--tile", "32,empty=0.5"});
  });
}

TEST_F(CocoPack, InProcessesKilledAtRandomMomentsTheSetEndsWithTheSameBytes) {
  expect_kills_change_nothing(folder_, [&](const std::string& set) {
    return command(set, {"--parts", "3"});
  });
}

TEST_F(CocoPack, InPartsTellsWhatIsMissingAndWhatIsDone) {
  EXPECT_THAT(refusal(command("x", {"--part", "9/8"}), 64), HasSubstr("--part: got 9/8"));
  EXPECT_THAT(refusal(command("x", {"--part", "1/2", "--parts", "2"}), 64), HasSubstr("not both"));
  EXPECT_THAT(refusal({"coco-pack", "--merge", "y", "--part", "1/2"}, 64),
              HasSubstr("--part: has no effect with --merge"));
  EXPECT_THAT(refusal({"coco-pack", "--merge", folder_ / "nowhere"}, 66),
              HasSubstr("holds no parts"));
  const std::string set = folder_ / "set";
  const ProcessResult part = run_process(command(set, {"--part", "2/2", "--split", "0.5"}));
  EXPECT_THAT(part.out, HasSubstr("/train: part 2/2: packed"));
  EXPECT_THAT(refusal({"coco-pack", "--merge", set}, 66),
              HasSubstr("/train: 1 of 2 parts is not packed (1); hint: run coco-pack with --part "
                        "K/2 for each and the other options"));
  run_process(command(set, {"--part", "1/2", "--split", "0.5"}));
  const ProcessResult merged = run_process({"coco-pack", "--merge", set});
  EXPECT_THAT(merged.out, AllOf(HasSubstr("/train: packed"), HasSubstr("/validation: packed")));
  const std::string failure =
      run_process(command(folder_ / "other", {"--parts", "2", "--on-bad-image", "fail"})).err;
  EXPECT_THAT(failure, AllOf(HasSubstr("coco-pack part "), HasSubstr("a part ended with exit")));
}

TEST_F(CocoPack, OfTilesRefusesWhatExcludesThem) {
  for (const auto& [tile, problem] :
       {std::pair{"32,overlap=0.99", "--tile overlap: bad value (got \"0.99\", want 0 to 0.9)"},
        {"overlap=0.5", "--tile overlap: has no effect without --tile"},
        {"31", "--tile: bad value (got \"31\", want 32 to 16384)"},
        {"32,visibility=1.1", "--tile visibility: bad value"},
        {"32,empty=-0.1", "--tile empty: bad value"}}) {
    EXPECT_THAT(refusal(command("x", {"--tile", tile}), 64), HasSubstr(problem));
  }
}

// Sets for classification.
TEST_F(CocoPack, PacksVerifiesAndInspectsClasses) {
  SmallFolders{folder_ / "f"}.write();
  SmallCifar10{folder_ / "c"}.write();
  const auto pack = [&](const std::string& format, const std::string& images,
                        const std::string& output, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"coco-pack", "--format", format, "--images",
                                          images,      "--output", output};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  const std::string images = folder_ / "f/images", cifar = folder_ / "c/cifar",
                    set = folder_ / "set";
  // What is refused leaves nothing.
  EXPECT_THAT(refusal(pack("folders", folder_ / "nowhere", set), 66), HasSubstr("does not exist"));
  EXPECT_THAT(refusal(pack("cifar10", folder_ / "nowhere.bin", set), 66),
              HasSubstr("nowhere.bin: does not exist"));
  EXPECT_THAT(refusal(pack("folders", images, images + "/set"), 78), HasSubstr("images' folder"));
  EXPECT_THAT(refusal(pack("cifar10", cifar, set,
                           {"--max-side", "9", "--quality", "9", "--exif", "apply", "--check",
                            "header", "--annotations", "x"}),
                      64),
              HasSubstr("--annotations, --max-side, --exif, --quality, --check: have no effect"));
  EXPECT_FALSE(path_exists(set));

  const ProcessResult packed = run_process(pack("folders", images, set));
  EXPECT_EQ(packed.exit_code, 0) << packed.err;
  EXPECT_THAT(packed.out, AllOf(HasSubstr("images        21 (0 quarantined)"),
                                HasSubstr("classes       3 (1 without images)")));
  EXPECT_THAT(run_process({"coco-pack", "--verify", set}).out, HasSubstr("intact, 21 images, "));
  const ProcessResult inspected = run_process({"coco-pack", "--inspect", set});
  EXPECT_THAT(inspected.out, HasSubstr("  0      1   cat    12"));
  EXPECT_THAT(inspected.out, Not(HasSubstr("boxes")));
  EXPECT_THAT(run_process({"coco-pack", "--inspect", set, "--image", "id=13"}).out,
              HasSubstr("class dog (label 1, id 2)"));
  EXPECT_EQ(run_process(pack("cifar10", cifar, folder_ / "c10")).exit_code, 0);
  EXPECT_THAT(run_process({"coco-pack", "--inspect", folder_ / "c10", "--image", "id=60"}).out,
              HasSubstr("32x32, 3.0 KiB, raw, "));
}

TEST_F(CocoPack, StoppedBySigtermItAsksToBeRunAgain) {
  ChildProcess child(command(folder_ / "set", {"--threads", "1"}));
  const bool started =
      child.run_until([&] { return path_exists(folder_ / "set/.packing/shard-00000"); }, 20);
  child.signal(SIGTERM);
  const ProcessResult result = child.wait();
  if (!started || result.exit_code == 0) GTEST_SKIP() << "packing was over before the signal";
  EXPECT_EQ(result.exit_code, 75) << result.err;
  EXPECT_EQ(run_process(command(folder_ / "set")).exit_code, 0);
}

}  // namespace
}  // namespace retina
