// Shards that are copied to a local disk, because their mount is slow or cannot map files, and what
// becomes of training where shards are damaged or go.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "shared/shard/manifest.h"
#include "tests/mounts/train_fixture.h"

namespace retina {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Staging : public TrainFixture {
 protected:
  // The job's training images in several shards.
  Staging() {
    const ProcessResult packed =
        run_process(job_->pack_command("train", set(), {"--shard-size", "64KiB"}));
    EXPECT_EQ(packed.exit_code, 0) << packed.err;
    manifest_ = read_manifest(set());
    EXPECT_GE(manifest_.shards.size(), 3U);
  }

  std::string set() const { return folder_ / "set"; }
  std::string local() const { return folder_ / "local"; }
  std::string path_of(std::size_t shard) const {
    return set() + "/" + manifest_.shards[shard].file.name;
  }

  // Trains on the many shards into run(); what comes out has the bits of the calm run's.
  std::vector<std::string> command(const std::vector<std::string>& more) const {
    auto words = TrainFixture::command(more);
    *std::find(words.begin(), words.end(), job_->train_shards()) = set();
    return words;
  }
  ProcessResult train(const std::string& rules, int exit_code,
                      const std::vector<std::string>& more = {}) const {
    const ProcessResult result = run_process(faulty(rules, command(more)));
    EXPECT_EQ(result.exit_code, exit_code) << rules << "\n" << result.err;
    return result;
  }

  Manifest manifest_;
};

TEST_F(Staging, FromANetworkMountGivesTheSameBitsAndLeavesNothing) {
  RETINA_FAULTS_OR_SKIP();
  const ProcessResult result = train("type=nfs path=" + set(), 0, {"--scratch", local()});
  EXPECT_THAT(result.err,
              HasSubstr(cat(set(), " is on NFS: ", manifest_.shards.size(), " shards")));
  EXPECT_EQ(count_of("warning:", result.err), 0) << result.err;
  expect_the_calm_result();
  EXPECT_TRUE(fs::is_empty(local()));
}

TEST_F(Staging, RanksOfANodeShareTheCopies) {
  RETINA_FAULTS_OR_SKIP();
  const auto words = command({"--scratch", local(), "--stage", "always"});
  const ProcessResult result = run_process(under_mpirun(2, words));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(count_of("is slow, as --stage always says", result.err), 1) << result.err;
  EXPECT_EQ(count_of("warning:", result.err), 0) << result.err;
  EXPECT_TRUE(fs::is_empty(local()));
}

TEST_F(Staging, WithoutLocksAProcessHasAFolderOfItsOwn) {
  RETINA_FAULTS_OR_SKIP();
  train("lock=ENOLCK path=" + local() + "; mmap=ENODEV path=" + set(), 0, {"--scratch", local()});
  expect_the_calm_result();
  EXPECT_TRUE(fs::is_empty(local()));
}

// On mounts that map files and on those that do not, staged and not.
TEST_F(Staging, ACutOrSwappedShardIs65AndNamed) {
  RETINA_FAULTS_OR_SKIP();
  const std::string bytes = read_file(path_of(1));
  std::string other = read_file(path_of(0));
  other.resize(bytes.size());
  for (const std::string& damaged : {bytes.substr(0, bytes.size() / 2), other}) {
    write_file_atomically(path_of(1), damaged);
    for (const std::string rule : {"read=count", "type=nfs", "mmap=ENODEV"}) {
      SCOPED_TRACE(rule);
      const ProcessResult result =
          train(rule + " path=" + set(), 65, {"--scratch", local(), "--max-bad-fraction", "0"});
      EXPECT_EQ(count_of("error:", result.err), 1) << result.err;
      EXPECT_THAT(result.err, HasSubstr(manifest_.shards[1].file.name));
    }
  }
}

TEST_F(Staging, AFlippedBitIsNamedAndReplacedOnAnyMount) {
  RETINA_FAULTS_OR_SKIP();
  std::string bytes = read_file(path_of(1));
  const std::size_t at = bytes.size() / 2;
  bytes[at] = static_cast<char>(bytes[at] ^ 4);
  write_file_atomically(path_of(1), bytes);
  for (const std::string rule : {"read=count", "type=nfs", "mmap=ENODEV"}) {
    SCOPED_TRACE(rule);
    const ProcessResult result =
        train(rule + " path=" + set(), 0, {"--scratch", local(), "--max-bad-fraction", "0.3"});
    EXPECT_EQ(count_of("(shard 1, record ", result.err), 1) << result.err;
    EXPECT_TRUE(fs::is_empty(local()));
    fs::remove_all(run());
  }
}

}  // namespace
}  // namespace retina
