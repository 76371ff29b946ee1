#include "shared/shard/stager.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <mutex>
#include <thread>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/mount.h"
#include "shared/shard/shard_set.h"
#include "tests/shard/small_set.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

constexpr std::size_t kStagedCount = 60;

// What another thread logs while this lives, readable at any moment: a capture of GoogleTest's has
// to end for that, and loses what is written before the next begins.
class StderrFile {
 public:
  explicit StderrFile(const std::string& path) : path_(path), before_(::dup(STDERR_FILENO)) {
    const int file = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_APPEND, 0600);
    RETINA_CHECK(before_ >= 0 && file >= 0);
    ::dup2(file, STDERR_FILENO);
    ::close(file);
  }
  ~StderrFile() {
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
  }
  StderrFile(const StderrFile&) = delete;
  StderrFile& operator=(const StderrFile&) = delete;

  std::string text() const { return read_file(path_); }

 private:
  std::string path_;
  int before_;
};

class StagerTest : public testing::Test {
 protected:
  StagerTest() {
    write_small_set(set(), kStagedCount, 100'000);
    manifest_ = read_manifest(set());
    for (std::size_t i = manifest_.shards.size(); i > 0; --i) backwards_.push_back(i - 1);
    RETINA_CHECK(backwards_.size() >= 4);
  }

  std::string set() const { return folder_ / "set"; }
  std::string local() const { return folder_ / "local"; }
  std::string path_of(std::size_t shard) const {
    return set() + "/" + manifest_.shards[shard].file.name;
  }

  // Stages all shards in this order until `count` are ready, or with 0 until the log says that it
  // has ended. Returns the shards that became ready.
  std::vector<std::size_t> stage(std::size_t count, const StageOptions& options = {}) {
    ShardCopies copies(set(), manifest_.shards, local());
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::size_t> ready;
    const StderrFile log(folder_ / "log");
    {
      const Stager stager(
          {.folder = set(),
           .manifest = manifest_,
           .copies = copies,
           .shards = backwards_,
           .reason = "is on a test",
           .options = options,
           .on_ready = [&](std::size_t shard, const ShardFile& copy) {
             EXPECT_EQ(copy.size(), static_cast<std::size_t>(manifest_.shards[shard].record_count));
             const std::lock_guard lock(mutex);
             ready.push_back(shard);
             changed.notify_all();
           }});
      std::unique_lock lock(mutex);
      while (count > 0 && ready.size() < count) changed.wait(lock);
      lock.unlock();
      while (count == 0 && !has_ended(log))
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    log_ += log.text();
    return ready;
  }

  bool has_ended(const StderrFile& log) const {
    const std::string text = log.text();
    return text.find("copied to " + local() + " in ") != std::string::npos ||
           text.find("no more shards of") != std::string::npos;
  }

  void expect_whole_records(const ShardSet& shards) const {
    for (std::size_t i = 0; i < kStagedCount; ++i) {
      const Record record = shards.read(i);
      std::string storage;
      ASSERT_EQ(record.image, small_record(i, record.image.size(), storage).image);
    }
  }

  TestFolder folder_;
  Manifest manifest_;
  std::vector<std::size_t> backwards_;
  std::string log_;
};

TEST_F(StagerTest, CopiesInOrderAndSaysSoOnceAtTheStartAndTheEnd) {
  EXPECT_EQ(stage(0), backwards_);
  EXPECT_THAT(log_, HasSubstr(cat(set(), " is on a test: ", backwards_.size(), " shards (")));
  EXPECT_THAT(log_, HasSubstr(cat(set(), ": ", backwards_.size(), " shards (")));
  EXPECT_EQ(std::count(log_.begin(), log_.end(), '\n'), 2) << log_;
  EXPECT_TRUE(file_names(local()).empty()) << "the last user has ended";
}

TEST_F(StagerTest, LeavesWhatIsBeyondTheLimit) {
  std::uint64_t room = 0;
  for (std::size_t i = 0; i < 2; ++i) room += manifest_.shards[backwards_[i]].file.size_bytes;
  const auto ready = stage(0, {.limit_bytes = room});
  EXPECT_EQ(ready, std::vector<std::size_t>(backwards_.begin(), backwards_.begin() + 2));
  EXPECT_THAT(log_, HasSubstr(cat(", ", backwards_.size() - 2, " beyond --stage-limit")));
}

TEST_F(StagerTest, NamesTheShardThatCannotBeCopiedAndGoesOn) {
  flip_bit(path_of(1), 8 * 50'001);
  fs::remove(path_of(0));
  EXPECT_EQ(stage(0).size(), backwards_.size() - 2);
  EXPECT_THAT(log_, HasSubstr("warning: " + path_of(1) + ": its copies do not match"));
  EXPECT_THAT(log_, Not(HasSubstr("warning: " + path_of(0)))) << "one warning will do";
  EXPECT_THAT(log_, HasSubstr(", 2 could not be copied"));
}

TEST_F(StagerTest, EndsWithAWarningWhenTheScratchDiskIsFull) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small = {.rlim_cur = 30'000, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &small);
  const auto ready = stage(0);
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_TRUE(ready.empty());
  EXPECT_THAT(log_, HasSubstr("copying a shard here failed"));
  EXPECT_THAT(log_, HasSubstr("they are read from the mount"));
}

TEST_F(StagerTest, StopsInMidWork) {
  EXPECT_GE(stage(1).size(), 1U);
  EXPECT_TRUE(file_names(local()).empty());
}

// Two sets open the same folder as two ranks do.
TEST_F(StagerTest, ASetReadsFromACopyAtOnceAndRecordsStayValid) {
  ShardSet set(this->set(), local()), other(this->set(), local());
  const Record first = set.read(0);  // from the mount
  const std::string bytes(first.image);
  for (ShardSet* one : {&set, &other}) {
    one->stage_ahead([&] { return backwards_; }, {.always = true, .announces = false});
  }
  std::vector<std::jthread> readers;
  for (int i = 0; i < 3; ++i) readers.emplace_back([&] { expect_whole_records(set); });
  readers.clear();
  // The sources go: what is not open yet can come from copies alone.
  while (ShardCopies::copied_bytes().full == 0) std::this_thread::yield();
  for (const ManifestShard& shard : manifest_.shards) {
    const auto is_copied = [&] {
      for (const auto& entry : fs::recursive_directory_iterator(local())) {
        if (entry.path().filename() == shard.file.name) return true;
      }
      return false;
    };
    while (!is_copied()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  fs::rename(this->set(), folder_ / "gone");
  for (bool ready = false; !ready;) {
    try {
      expect_whole_records(other);
      ready = true;
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::kIo) << error.what();  // the last is on its way
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  expect_whole_records(set);
  EXPECT_EQ(first.image, bytes);
}

TEST_F(StagerTest, ASetStaysWhereItIsWithoutAReason) {
  testing::internal::CaptureStderr();
  {
    ShardSet here(set(), local()), off(set(), local()), nowhere(set());
    const auto unasked = [this] {
      ADD_FAILURE() << "no need to plan";
      return backwards_;
    };
    if (network_file_system(set()).empty()) here.stage_ahead(unasked, {});
    off.stage_ahead(unasked, {.always = true, .limit_bytes = 0});
    nowhere.stage_ahead(unasked, {.always = true});
    expect_whole_records(here);
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("with --scratch, its shards are"));
  EXPECT_FALSE(path_exists(local()));
}

TEST_F(StagerTest, AShardThatGoesWhileTheSetIsOpenIsAnIoError) {
  const ShardSet shards(set());
  fs::remove(path_of(1));
  std::string message;
  std::size_t place = 0;
  while (shards.index()[place].shard != 1) ++place;
  EXPECT_EQ(error_kind([&] { (void)shards.read(place); }, &message), ErrorKind::kIo);
  EXPECT_THAT(message, HasSubstr(path_of(1)));
}

}  // namespace
}  // namespace retina
