#include "shared/shard/shard_copies.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <thread>

#include "shared/base/descriptor.h"
#include "shared/base/file.h"
#include "shared/base/signals.h"
#include "tests/shard/small_set.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 40;

// A process that copies beside the test's own.
class Child {
 public:
  // Runs `body`, which returns whether all was well, and then stays until it is killed.
  explicit Child(const std::function<bool()>& body) {
    int ends[2];
    RETINA_CHECK(::pipe2(ends, O_CLOEXEC) == 0);
    done_ = ends[0];
    pid_ = ::fork();
    if (pid_ == 0) {
      const char good = body() ? 'y' : 'n';
      [[maybe_unused]] const auto wrote = ::write(ends[1], &good, 1);
      for (;;) ::pause();
    }
    ::close(ends[1]);
  }
  ~Child() { kill(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Waits for the end of `body`.
  bool is_good() const {
    char good = 'n';
    return ::read(done_, &good, 1) == 1 && good == 'y';
  }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(done_);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  int done_ = -1;
};

class ShardCopiesTest : public testing::Test {
 protected:
  ShardCopiesTest() {
    write_small_set(set(), 40, 150'000);
    manifest_ = read_manifest(set());
    RETINA_CHECK(manifest_.shards.size() >= 3);
  }

  std::string set() const { return folder_ / "set"; }
  std::string local() const { return folder_ / "local"; }
  std::string source(std::size_t shard) const {
    return set() + "/" + manifest_.shards[shard].file.name;
  }
  const ManifestShard& shard(std::size_t number) const { return manifest_.shards[number]; }

  std::unique_ptr<ShardCopies> open() const {
    return std::make_unique<ShardCopies>(set(), manifest_.shards, local(), read_file_or_pipe);
  }
  // A pipe is a source as slow as a test wants it.
  static void read_file_or_pipe(const std::string& path,
                                const std::function<void(std::string_view)>& take) {
    if (!fs::is_fifo(path)) return read_pieces(path, take);
    std::ifstream pipe(path, std::ios::binary);
    std::string piece(4096, '\0');
    while (pipe.read(piece.data(), static_cast<std::streamsize>(piece.size())), pipe.gcount() > 0) {
      take(std::string_view(piece).substr(0, static_cast<std::size_t>(pipe.gcount())));
    }
  }
  // The folder of copies that is there.
  std::string copies() const {
    const auto names = file_names(local());
    return names.size() == 1 ? local() + "/" + names[0] : "";
  }

  // The source becomes a pipe: what is read from it is up to the test.
  std::string read_and_make_pipe(std::size_t number) const {
    std::string bytes = read_file(source(number));
    make_pipe(number);
    return bytes;
  }
  void make_pipe(std::size_t number) const {
    fs::remove(source(number));
    RETINA_CHECK(::mkfifo(source(number).c_str(), 0666) == 0);
  }
  // For one reader of the pipe, which it waits for.
  class Feed {
   public:
    explicit Feed(const std::string& pipe) : pipe_(::open(pipe.c_str(), O_WRONLY | O_CLOEXEC)) {}
    ~Feed() { ::close(pipe_); }
    Feed(const Feed&) = delete;
    Feed& operator=(const Feed&) = delete;
    void write(std::string_view bytes) const {
      while (!bytes.empty()) {
        const ssize_t wrote = ::write(pipe_, bytes.data(), bytes.size());
        RETINA_CHECK(wrote > 0);
        bytes.remove_prefix(static_cast<std::size_t>(wrote));
      }
    }

   private:
    int pipe_;
  };

  TestFolder folder_;
  Manifest manifest_;
};

TEST_F(ShardCopiesTest, AreSharedAndRemovedByTheLastUser) {
  const std::string bytes = read_file(source(0));
  auto first = open(), second = open();
  EXPECT_FALSE(path_exists(local())) << "nothing is touched before the first copy";
  EXPECT_EQ(first->copy(shard(0)).file.content(), bytes);
  fs::remove(source(0));
  ShardCopy found = second->copy(shard(0));
  EXPECT_EQ(found.state, CopyState::kReady);
  first.reset();
  EXPECT_EQ(open()->copy(shard(0)).file.content(), bytes) << "the second still uses them";
  second.reset();
  EXPECT_TRUE(file_names(local()).empty());
  EXPECT_EQ(found.file.content(), bytes) << "what is mapped stays";
}

TEST_F(ShardCopiesTest, OfAKilledJobAreFoundByTheNext) {
  const std::string bytes = read_file(source(1));
  {
    Child killed([&] {
      auto* const copies = open().release();
      return copies->copy(shard(1)).state == CopyState::kReady;
    });
    ASSERT_TRUE(killed.is_good());
  }
  fs::remove(source(1));
  EXPECT_EQ(open()->copy(shard(1)).file.content(), bytes);
  EXPECT_TRUE(file_names(local()).empty());
}

TEST_F(ShardCopiesTest, OfAnotherSetThatAKilledJobLeftAreRemoved) {
  write_small_set(folder_ / "other", 20, 150'000);
  const Manifest other = read_manifest(folder_ / "other");
  {
    Child killed([&] {
      auto* const copies = new ShardCopies(folder_ / "other", other.shards, local());
      return copies->copy(other.shards[0]).state == CopyState::kReady;
    });
    ASSERT_TRUE(killed.is_good());
    const auto user = open();
    user->copy(shard(0));
    EXPECT_EQ(file_names(local()).size(), 2U) << "in use";
  }
  const std::string theirs = local() + "/retina-shards-notes";
  make_folder(theirs);
  write_plain_file(theirs + "/notes.txt", "not ours");
  write_plain_file(local() + "/retina-shards.txt", "not ours");
  const auto user = open();
  user->copy(shard(0));
  EXPECT_EQ(file_names(local()).size(), 3U);
  EXPECT_EQ(file_names(theirs), std::vector<std::string>{"notes.txt"});
}

TEST_F(ShardCopiesTest, AreMadeOnceByTwoProcesses) {
  const std::string bytes = read_and_make_pipe(0);
  Child child([&] { return open().release()->copy(shard(0)).file.content() == bytes; });
  std::jthread feeder;
  {
    auto feed = std::make_unique<Feed>(source(0));  // it reads: it has the lock
    feed->write(bytes.substr(0, bytes.size() / 2));
    EXPECT_EQ(open()->copy(shard(0), {.limit_bytes = kNoLimit}).state, CopyState::kBusy);
    feeder = std::jthread([feed = std::move(feed), &bytes] {
      feed->write(std::string_view(bytes).substr(bytes.size() / 2));
    });
  }
  // A second reader of the pipe would wait for ever.
  EXPECT_EQ(open()->copy(shard(0)).file.content(), bytes);
  EXPECT_TRUE(child.is_good());
}

TEST_F(ShardCopiesTest, ThreadsOfAProcessWaitForEachOther) {
  const std::string bytes = read_and_make_pipe(0);
  const auto copies = open();
  std::jthread first([&] { EXPECT_EQ(copies->copy(shard(0)).file.content(), bytes); }), waiting;
  {
    const Feed feed(source(0));
    feed.write(bytes.substr(0, 1000));
    EXPECT_EQ(copies->copy(shard(0), {.limit_bytes = kNoLimit}).state, CopyState::kBusy);
    waiting = std::jthread([&] { EXPECT_EQ(copies->copy(shard(0)).file.content(), bytes); });
    feed.write(bytes.substr(1000));
  }
  EXPECT_EQ(copies->copy(shard(0)).file.content(), bytes);
}

TEST_F(ShardCopiesTest, AKilledWriterHoldsNobodyUp) {
  const std::string bytes = read_and_make_pipe(0);
  Child child([&] {
    open().release()->copy(shard(0));
    return false;
  });
  const Feed feed(source(0));
  feed.write(bytes.substr(0, bytes.size() / 2));
  const auto copies = open();
  EXPECT_EQ(copies->copy(shard(0), {.limit_bytes = kNoLimit}).state, CopyState::kBusy);
  child.kill();
  fs::remove(source(0));
  write_plain_file(source(0), bytes);
  EXPECT_EQ(copies->copy(shard(0)).file.content(), bytes);
  EXPECT_EQ(file_names(this->copies()), (std::vector<std::string>{".lock", shard(0).file.name}));
}

TEST_F(ShardCopiesTest, AreMadeAgainWhereTheHashIsWrong) {
  const std::string bytes = read_and_make_pipe(0);
  std::string wrong = bytes;
  wrong[bytes.size() / 2] ^= 1;
  std::jthread feeder([&] {
    {
      const Feed feed(source(0));
      feed.write(wrong);
      make_pipe(0);  // the first reader must not read from the next writer
    }
    Feed(source(0)).write(bytes);
  });
  const ShardCopy copy = open()->copy(shard(0));
  EXPECT_EQ(copy.state, CopyState::kReady);
  EXPECT_EQ(copy.file.content(), bytes);
}

TEST_F(ShardCopiesTest, OfADamagedShardAreNotKept) {
  flip_bit(source(0), 8 * 50'001);
  const std::string bytes = read_file(source(0));
  const auto copies = open();
  const ShardCopy copy = copies->copy(shard(0));
  EXPECT_EQ(copy.state, CopyState::kDamaged);
  EXPECT_EQ(copy.file.content(), bytes) << "its other records can be read";
  EXPECT_EQ(copies->copy(shard(0), {.limit_bytes = kNoLimit}).state, CopyState::kDamaged);
  EXPECT_EQ(file_names(this->copies()), std::vector<std::string>{".lock"});
}

TEST_F(ShardCopiesTest, ThatAreDamagedAreReplaced) {
  const std::string bytes = read_file(source(0));
  const auto user = open();
  user->copy(shard(0));
  const std::string path = copies() + "/" + shard(0).file.name;
  flip_bit(path, 8 * 50'001);
  // A clock of a few milliseconds may have the time of the copy.
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(1));
  EXPECT_EQ(user->copy(shard(0)).file.content(), bytes) << "who has compared it notices, too";
  flip_bit(path, 8 * 50'001);
  const auto next = open();
  EXPECT_EQ(next->copy(shard(0)).file.content(), bytes);
  write_plain_file(path, "cut");
  EXPECT_EQ(next->copy(shard(0)).file.content(), bytes);
}

TEST_F(ShardCopiesTest, ASourceOfTheWrongSizeIsNamed) {
  const std::string bytes = read_file(source(0));
  for (const std::string& other : {bytes.substr(0, 5000), bytes + "more"}) {
    write_plain_file(source(0), other);
    std::string message;
    const auto copies = open();
    EXPECT_EQ(error_kind([&] { copies->copy(shard(0)); }, &message), ErrorKind::kData);
    EXPECT_THAT(message, HasSubstr(shard(0).file.name + ": changed its size"));
    EXPECT_EQ(file_names(this->copies()), std::vector<std::string>{".lock"});
  }
  fs::remove(source(0));
  EXPECT_EQ(error_kind([&] { open()->copy(shard(0)); }), ErrorKind::kNoInput);
}

TEST_F(ShardCopiesTest, AheadOfUseObeyALimitOnAllFoldersTogether) {
  write_small_set(folder_ / "other", 20, 150'000);
  const Manifest other = read_manifest(folder_ / "other");
  ShardCopies others(folder_ / "other", other.shards, local());
  others.copy(other.shards[0]);
  const std::uint64_t there = other.shards[0].file.size_bytes;
  EXPECT_EQ(ShardCopies::copied_bytes().full, there);
  const auto copies = open();
  const std::uint64_t room = there + shard(0).file.size_bytes;
  EXPECT_EQ(copies->copy(shard(0), {.limit_bytes = room - 1}).state, CopyState::kBeyondLimit);
  EXPECT_EQ(ShardCopies::copied_bytes().full, there);
  EXPECT_EQ(copies->copy(shard(0), {.limit_bytes = room}).state, CopyState::kReady);
  EXPECT_EQ(copies->copy(shard(1), {.limit_bytes = room}).state, CopyState::kBeyondLimit);
  EXPECT_EQ(copies->copy(shard(0), {.limit_bytes = 0}).state, CopyState::kReady) << "is there";
  EXPECT_EQ(copies->copy(shard(1)).state, CopyState::kReady) << "must be read now";
}

TEST_F(ShardCopiesTest, AheadOfUseStop) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(error_kind([&] {
              open()->copy(shard(0), {.limit_bytes = kNoLimit, .stop = stop.get_token()});
            }),
            ErrorKind::kInterrupted);
  EXPECT_TRUE(file_names(local()).empty());
}

TEST_F(ShardCopiesTest, ASignalEndsTheWaitForAnotherProcess) {
  const std::string bytes = read_and_make_pipe(0);
  Child child([&] {
    open().release()->copy(shard(0));
    return false;
  });
  const Feed feed(source(0));
  feed.write(bytes.substr(0, bytes.size() / 2));
  set_stop_signal(SIGTERM);
  EXPECT_EQ(error_kind([&] { open()->copy(shard(0)); }), ErrorKind::kInterrupted);
  set_stop_signal(0);
}

TEST_F(ShardCopiesTest, AreNobodyElsesToRead) {
  const auto user = open();
  user->copy(shard(0));
  struct stat status {};
  ASSERT_EQ(::stat(copies().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700U);
  ASSERT_EQ(::stat((copies() + "/" + shard(0).file.name).c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
}

// What is not this process's to remove lowers what is free, and not the limit.
TEST_F(ShardCopiesTest, OfOthersDoNotCount) {
  const std::string theirs = local() + "/retina-shards-theirs";
  fs::create_directories(theirs);
  const Descriptor lock(theirs + "/.lock", O_RDWR | O_CREAT);
  ASSERT_EQ(::flock(lock.get(), LOCK_SH), 0);
  write_plain_file(theirs + "/" + shard(0).file.name, "a shard");
  fs::resize_file(theirs + "/" + shard(0).file.name, kNoLimit);  // which takes no room
  const auto user = open();
  EXPECT_EQ(user->copy(shard(0), {.limit_bytes = shard(0).file.size_bytes}).state,
            CopyState::kReady);
  EXPECT_EQ(ShardCopies::copied_bytes().full, shard(0).file.size_bytes);
}

TEST_F(ShardCopiesTest, ThatAKilledJobLeftAreKnown) {
  {
    Child killed([&] { return open().release()->copy(shard(1)).state == CopyState::kReady; });
    ASSERT_TRUE(killed.is_good());
    const auto beside = open();
    beside->copy(shard(0));
    EXPECT_FALSE(beside->is_left(shard(1))) << "its owner lives";
  }
  const auto next = open();
  next->copy(shard(0));
  EXPECT_TRUE(next->is_left(shard(1)));
  next->remove(shard(1));
  EXPECT_FALSE(next->is_left(shard(1)));
  EXPECT_FALSE(next->is_there(shard(1)));
}

// A limit on the size of files makes writes fail as a full disk does.
TEST_F(ShardCopiesTest, OnAFullDiskAreAnErrorOfTheScratchFolderAndLeaveNothing) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small = {.rlim_cur = shard(0).file.size_bytes / 2, .rlim_max = before.rlim_max};
  std::string message;
  {
    const auto copies = open();
    ::setrlimit(RLIMIT_FSIZE, &small);
    EXPECT_THROW(copies->copy(shard(0)), ScratchError);
    EXPECT_EQ(error_kind([&] { copies->copy(shard(0)); }, &message), ErrorKind::kIo);
    ::setrlimit(RLIMIT_FSIZE, &before);
    EXPECT_EQ(file_names(this->copies()), std::vector<std::string>{".lock"});
  }
  EXPECT_THAT(message, HasSubstr(local()));
  EXPECT_TRUE(file_names(local()).empty());
}

TEST_F(ShardCopiesTest, InAFolderThatCannotBeAreAnErrorOfTheScratchFolder) {
  write_plain_file(folder_ / "file", "");
  ShardCopies copies(set(), manifest_.shards, folder_ / "file");
  EXPECT_THROW(copies.copy(shard(0)), ScratchError);
  EXPECT_EQ(error_kind([&] { copies.copy(shard(0)); }), ErrorKind::kCannotCreate);
}

// In /tmp somebody else may have a folder of that name.
TEST_F(ShardCopiesTest, AreMadeInAFolderOfTheirOwnWhereTheNameIsTaken) {
  const auto user = open();
  user->copy(shard(0));
  const std::string taken = copies();
  fs::rename(taken, folder_ / "away");
  fs::create_symlink(folder_ / "away", taken);
  {
    const auto next = open();
    EXPECT_EQ(next->copy(shard(1)).state, CopyState::kReady);
    EXPECT_EQ(file_names(local()).size(), 2U);
  }
  EXPECT_EQ(file_names(local()).size(), 1U);
  EXPECT_FALSE(path_exists(folder_ / "away/" + shard(1).file.name));
}

}  // namespace
}  // namespace retina
