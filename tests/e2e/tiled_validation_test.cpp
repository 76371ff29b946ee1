// Validation on a set of tiles (coco-pack --tile), which scores whole images.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <vector>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/shard/shard_set.h"
#include "tests/e2e/job.h"
#include "tests/support/child_process.h"

namespace retina {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

class TiledValidation : public testing::Test {
 protected:
  // The training images, cut into tiles.
  std::string tiles(const std::string& name, const std::string& tile = "96") const {
    const ProcessResult packed =
        run_process(job_.pack_command("train", job_ / name, {"--tile", tile}));
    EXPECT_EQ(packed.exit_code, 0) << packed.err;
    return job_ / name;
  }

  // By the smallest network.
  static Words command(const std::string& shards, const std::string& run, int steps,
                       const Words& more) {
    Words words = small_train_command(shards, run, steps, more);
    set_value(words, "--backbone", "mobilenet_v3_large");
    set_value(words, "--lr", "0.002");
    words.insert(words.end(), {"--size", "nano", "--optimizer", "adamw"});
    return words;
  }

  std::string train(const Words& words, int ranks = 1) const {
    const ProcessResult trained = run_on(ranks, words);
    EXPECT_EQ(trained.exit_code, 0) << trained.err;
    return trained.err;
  }

  std::string evaluate(const std::string& run, const std::string& shards,
                       const std::string& output) const {
    const ProcessResult result =
        run_process({"retina-eval", "--model", last_checkpoint(run), "--data", shards, "--output",
                     job_ / output, "--device", "cpu", "--compute-threads", "1"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.err;
  }

  const Job job_;
};

std::string with_boxes(const std::string& shards) {
  const ShardSet set(shards);
  const auto count = std::count_if(set.index().begin(), set.index().end(),
                                   [](const IndexEntry& one) { return one.trainable_count > 0; });
  EXPECT_LT(count, std::ssize(set.index()));
  return std::to_string(count);
}

TEST_F(TiledValidation, IsRetinaEvalsAndHasTheSameBitsOnAnyNumberOfRanks) {
  const std::string shards = tiles("tiles"), run = job_ / "run";
  EXPECT_THAT(train(command(shards, run, 12, {"--validation", shards, "--validate-every", "0"})),
              HasSubstr("training on 72 tiles of 8 images, 4 per step"));
  evaluate(run, shards, "evaluation");
  const JsonFile line = JsonFile::parse(last_validation_line(run), "metrics.jsonl");
  const JsonFile file = JsonFile::read(job_ / "evaluation/metrics.json");
  const double ap = line.root().at("validation").at("AP").as_double();
  EXPECT_EQ(ap, file.root().at("stats").at(std::size_t{0}).as_double());
  EXPECT_GT(ap, 0);
  RecordProperty("ap", std::to_string(ap));
  // The checkpoint says what it was trained on.
  EXPECT_THAT(read_file(last_checkpoint(run)), HasSubstr("tile_px"));

  // One step of the same weights, which stay: ranks share the tiles otherwise.
  Words lines;
  for (const int ranks : {1, 2}) {
    const std::string still = job_ / ("on-" + std::to_string(ranks));
    Words again = command(shards, still, 1,
                          {"--validation", shards, "--init", last_checkpoint(run), "--augment",
                           "none", "--norm", "frozen"});
    set_value(again, "--lr", "1e-30");
    train(again, ranks);
    lines.push_back(last_validation_line(still));
  }
  EXPECT_EQ(lines[0], lines[1]);
  EXPECT_THAT(lines[0], HasSubstr("\"box_loss\":"));
}

TEST_F(TiledValidation, WarnsWhereEmptyTilesWereLeftOut) {
  const std::string all = tiles("all"), some = tiles("some", "96,empty=0");
  const std::string run = job_ / "run";
  const auto warning = AllOf(HasSubstr("left out by --tile empty=0: false positives there are"),
                             HasSubstr("empty=1"), HasSubstr("--split"));
  EXPECT_THAT(train(command(all, run, 1, {"--validation", some, "--recipe", "auto"})),
              AllOf(HasSubstr("--validation " + some + ": "), warning,
                    HasSubstr("recipe small, chosen because " + with_boxes(all) +
                              " tiles with boxes are few")));
  EXPECT_THAT(evaluate(run, some, "evaluation"), AllOf(HasSubstr(some + ": "), warning));
  EXPECT_THAT(evaluate(run, all, "evaluation-of-all"), Not(HasSubstr("empty=")));
}

}  // namespace
}  // namespace retina
