// A record that turns out to be damaged while training.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/shard/shard_set.h"
#include "tests/e2e/job.h"
#include "tests/support/child_process.h"

namespace retina {
namespace {

using testing::HasSubstr;

// A job with a bit flipped in the middle of one image of its shards.
class DamagedRecord : public testing::Test {
 protected:
  DamagedRecord() {
    const ShardSet shards(job_.train_shards());
    const IndexEntry entry = shards.index()[kRecord];
    image_id_ = entry.image_id;
    const std::string jpeg(shards.read(kRecord).image);
    const std::string path =
        job_.train_shards() + "/" + shards.manifest().shards[entry.shard].file.name;
    const std::string bytes = read_file(path);
    const std::size_t at = bytes.find(jpeg);
    EXPECT_NE(at, std::string::npos);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at + jpeg.size() / 2));
    file.put(static_cast<char>(bytes[at + jpeg.size() / 2] ^ 4));
  }

  // Two steps see each of the eight images once.
  ProcessResult train(int ranks, const std::string& run,
                      const std::vector<std::string>& more = {}) const {
    return run_on(ranks, job_.train_command(run, 2, more));
  }

  static std::int64_t replaced_images(const std::string& run) {
    std::int64_t sum = 0;
    for (const JsonFile& line : metric_lines(run, "replaced_images")) {
      sum += line.root().at("replaced_images").as_int();
    }
    return sum;
  }

  static constexpr std::size_t kRecord = 5;
  Job job_;
  std::int64_t image_id_ = 0;
};

TEST_F(DamagedRecord, IsReplacedNamedOnceAndCountedOnAnyNumberOfRanks) {
  std::vector<double> losses;
  for (const int ranks : {1, 2}) {
    SCOPED_TRACE(ranks);
    const std::string run = job_ / ("run-" + std::to_string(ranks));
    const ProcessResult result =
        train(ranks, run, {"--max-bad-fraction", "0.2", "--norm", "frozen"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const std::string name = cat("(image ", image_id_, ") (shard 0, record ");
    EXPECT_EQ(occurrences(name, result.err), 1U) << result.err;
    EXPECT_EQ(replaced_images(run), 1);
    losses.push_back(first_step(run, "loss"));
  }
  EXPECT_NEAR(losses[0], losses[1], 1e-4 * losses[0]) << "another image took its place";
}

TEST_F(DamagedRecord, EndsTheJobOnAllRanksWhereTooManyAre) {
  for (const int ranks : {1, 2}) {
    SCOPED_TRACE(ranks);
    const ProcessResult result = train(ranks, job_ / ("run-" + std::to_string(ranks)));
    EXPECT_EQ(result.exit_code, 65) << result.err;
    EXPECT_EQ(occurrences("error: ", result.err), 1U) << result.err;
    EXPECT_THAT(result.err, HasSubstr(cat("(image ", image_id_, ") (shard 0, record ")));
    EXPECT_THAT(result.err, HasSubstr("1 of 8 records are now damaged (want at most 0.001 of "
                                      "them, --max-bad-fraction)"));
  }
}

}  // namespace
}  // namespace retina
