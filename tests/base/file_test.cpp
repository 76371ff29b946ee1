#include "shared/base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>

#include "shared/base/error.h"
#include "shared/base/hash.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"
#include "tests/support/unprivileged.h"

namespace retina {
namespace {

using testing::HasSubstr;

template <class F>
ErrorKind kind_of(F&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << "no error";
  return ErrorKind::kInternal;
}

TEST(NameMatches, IsAboutTheWholeName) {
  constexpr const char* kPattern = "shard-[0-9]+\\.lmdb|-?[0-9]{2,}";
  for (const char* good : {"shard-1.lmdb", "12", "-12"}) EXPECT_TRUE(name_matches(good, kPattern));
  for (const std::string& bad : {std::string("shard-.lmdb"), std::string("xshard-1.lmdb"),
                                 std::string("shard-1.lmdbx"), std::string("12\0x", 4)}) {
    EXPECT_FALSE(name_matches(bad, kPattern)) << bad;
  }
}

// A file that may not be read is there: neither gone nor a fault of the mount.
TEST(ReadFile, SaysThatThisUserMayNotRead) {
  const TestFolder folder;
  write_file_atomically(folder / "file", "x");
  make_folder(folder / "closed/inside");
  std::filesystem::permissions(folder / "file", std::filesystem::perms::none);
  std::filesystem::permissions(folder / "closed", std::filesystem::perms::none);
  {
    const Unprivileged nobody(folder.path());
    for (const std::string path : {"file", "closed/inside/file"}) {
      EXPECT_THAT(refusal_of(ErrorKind::kNoInput, [&] { read_file(folder / path); }),
                  HasSubstr("may not be read"));
    }
    for (const std::string path : {"closed", "closed/inside"}) {
      EXPECT_THAT(refusal_of(ErrorKind::kNoInput, [&] { require_folder(folder / path, ""); }),
                  HasSubstr("may not be read"));
    }
  }
  std::filesystem::permissions(folder / "closed", std::filesystem::perms::all);
  EXPECT_NO_THROW(require_folder(folder / "closed", ""));
  EXPECT_THAT(refusal_of(ErrorKind::kNoInput, [&] { require_folder(folder / "file", ""); }),
              HasSubstr("is not a folder"));
  EXPECT_THAT(refusal_of(ErrorKind::kNoInput, [&] { require_folder(folder / "none", ""); }),
              HasSubstr("does not exist"));
}

TEST(FileReader, AcceptsRegularFilesAlone) {
  const TestFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", folder / "endless");
  std::filesystem::create_symlink("/proc/self/status", folder / "kernel");
  for (const char* name : {"pipe", "endless", "kernel", "."}) {
    EXPECT_THAT(refusal_of(ErrorKind::kNoInput, [&] { FileReader file(folder / name); }),
                testing::AllOf(HasSubstr(": is a "), HasSubstr("want ")));
  }
  for (const char* name : {"pipe", "missing", "."}) {
    EXPECT_EQ(kind_of([&] { file_size_bytes(folder / name); }), ErrorKind::kNoInput);
    EXPECT_EQ(kind_of([&] { read_file(folder / name); }), ErrorKind::kNoInput);
  }
}

TEST(FileReader, ReadsEveryByteFromAnyPlace) {
  const TestFolder folder;
  const std::string path = folder / "a", content("h\0l\n\xff", 5);
  write_file_atomically(path, content);
  EXPECT_EQ(read_file(path), content);
  EXPECT_EQ(file_size_bytes(path), 5U);
  FileReader file(path);
  std::string bytes(3, '?');
  EXPECT_EQ(file.read_at(2, bytes.data(), 3), 3U);
  EXPECT_EQ(bytes, content.substr(2));
  EXPECT_EQ(file.read_at(4, bytes.data(), 3), 1U);
  EXPECT_EQ(file.read(bytes.data(), 3), 3U);
  EXPECT_EQ(bytes, content.substr(0, 3));
  EXPECT_EQ(read_start(path, 3), content.substr(0, 3));
  EXPECT_EQ(read_start(path, 100), content);
  EXPECT_EQ(read_part(path, 3, 100), content.substr(3));
  EXPECT_EQ(read_part(path, 500, 1), "");
}

// A hole of a terabyte costs nothing on the disk.
TEST(ReadText, RefusesALargeFileBeforeReadingIt) {
  const TestFolder folder;
  write_file_atomically(folder / "a", "hello");
  EXPECT_EQ(read_text(folder / "a", 5), "hello");
  EXPECT_THAT(refusal_of(ErrorKind::kData, [&] { read_text(folder / "a", 4); }),
              HasSubstr("a: is too large"));
  std::error_code error;
  std::filesystem::resize_file(folder / "a", std::uintmax_t{1} << 44, error);
  if (error) GTEST_SKIP() << "this file system has no files of 16 TiB: " << error.message();
  EXPECT_EQ(kind_of([&] { read_text(folder / "a"); }), ErrorKind::kData);
  EXPECT_EQ(kind_of([&] { read_file(folder / "a"); }), ErrorKind::kUnavailable);
}

TEST(ReadError, DistinguishesAMissingFileFromAMountThatFails) {
  for (const int code : {ENOENT, ENOTDIR, EACCES, EISDIR, EOPNOTSUPP}) {
    EXPECT_EQ(read_error("f", code).kind(), ErrorKind::kNoInput);
  }
  for (const int code : {EMFILE, ENOMEM}) {
    EXPECT_EQ(read_error("f", code).kind(), ErrorKind::kUnavailable);
  }
  for (const int code : {EIO, ESTALE, ETIMEDOUT, ENOTCONN}) {
    EXPECT_EQ(read_error("f", code).kind(), ErrorKind::kIo);
  }
}

TEST(MakeFolder, RefusesAFileOfThatName) {
  const TestFolder folder;
  write_file_atomically(folder / "name", "x");
  EXPECT_EQ(kind_of([&] { make_folder(folder / "name"); }), ErrorKind::kCannotCreate);
  EXPECT_EQ(kind_of([&] { check_can_be_folder(folder / "name/a"); }), ErrorKind::kCannotCreate);
  check_can_be_folder(folder / "deep/er");
  make_folder(folder / "deep/er");
  EXPECT_TRUE(is_folder(folder / "deep/er"));
}

class AtomicFileTest : public testing::Test {
 protected:
  AtomicFileTest() { write_file_atomically(path_, "old"); }

  const TestFolder folder_;
  const std::string path_ = folder_ / "file";
};

TEST_F(AtomicFileTest, KeepsTheOldContentUntilTheCommit) {
  AtomicFile file(path_);
  file.write("new");
  EXPECT_EQ(read_file(path_), "old");
  file.commit();
  EXPECT_EQ(read_file(path_), "new");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
}

TEST_F(AtomicFileTest, LeavesNothingWhenItIsGivenUp) {
  AtomicFile(folder_ / "other").write("half");
  EXPECT_FALSE(path_exists(folder_ / "other.tmp"));
  EXPECT_FALSE(path_exists(folder_ / "other"));
}

TEST_F(AtomicFileTest, KeepsTheOldContentWhenTheProcessIsKilledWhileWriting) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    AtomicFile file(path_);
    file.write("half of the new cont");
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(read_file(path_), "old");
  write_file_atomically(path_, "new");  // the leftover is no obstacle
  EXPECT_EQ(read_file(path_), "new");
}

TEST_F(AtomicFileTest, KeepsTheOldContentWhenVerifyRefuses) {
  AtomicFile file(path_);
  file.write("new");
  const auto refuse = [](const std::string& temporary) {
    EXPECT_EQ(read_file(temporary), "new");
    throw Error(ErrorKind::kNoInput, "is gone");
  };
  EXPECT_EQ(kind_of([&] { file.commit(refuse); }), ErrorKind::kIo) << "the mount is gone";
  EXPECT_EQ(read_file(path_), "old");
}

TEST_F(AtomicFileTest, ReportsAFullDiskAsAnInputOutputError) {
  if (!path_exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  ASSERT_EQ(::symlink("/dev/full", (folder_ / "other.tmp").c_str()), 0);
  EXPECT_EQ(kind_of([&] { write_file_atomically(folder_ / "other", "x"); }), ErrorKind::kIo);
  EXPECT_FALSE(path_exists(folder_ / "other"));
  EXPECT_EQ(kind_of([] { AppendFile("/dev/full").append("bytes"); }), ErrorKind::kIo);
}

TEST_F(AtomicFileTest, SaysThatTheOutputCannotBeCreated) {
  const std::string path = folder_ / "missing/file";
  EXPECT_EQ(kind_of([&] { AtomicFile file(path); }), ErrorKind::kCannotCreate);
  EXPECT_EQ(kind_of([&] { AppendFile file(path); }), ErrorKind::kCannotCreate);
  EXPECT_EQ(kind_of([&] { as_io_error([&] { AtomicFile file(path); }); }), ErrorKind::kIo);
}

TEST(AppendFile, ContinuesBehindThePresentContent) {
  const TestFolder folder;
  for (const char* line : {"one\n", "two\n"}) {
    AppendFile file(folder / "file");
    file.append(line);
    file.sync();
  }
  EXPECT_EQ(read_file(folder / "file"), "one\ntwo\n");
}

TEST(RecoverFile, RestoresAFileThatStoodAside) {
  const TestFolder folder;
  const std::string path = folder / "file";
  recover_file(path);
  EXPECT_FALSE(path_exists(path));
  for (const char* content : {"old", "older"}) {  // a file that is there stays
    write_file_atomically(path + ".old", content);
    recover_file(path);
    EXPECT_EQ(read_file(path), "old");
  }
}

TEST(DeliverFile, CopiesEveryByteAndReturnsTheirHash) {
  const TestFolder folder;
  const std::string bytes(3 << 20, 'x');
  write_file_atomically(folder / "source", bytes);
  EXPECT_EQ(deliver_file(folder / "source", folder / "target"), xxh3(bytes));
  EXPECT_EQ(read_file(folder / "target"), bytes);
  EXPECT_TRUE(path_exists(folder / "source"));
  EXPECT_EQ(kind_of([&] { deliver_file(folder / "gone", folder / "target"); }),
            ErrorKind::kNoInput);
  EXPECT_EQ(read_file(folder / "target"), bytes);
}

TEST(RequireSpace, RefusesAFileThatCannotFit) {
  const TestFolder folder;
  EXPECT_NO_THROW(require_space(folder.path(), 1, "--output"));
  EXPECT_EQ(kind_of([&] { require_space(folder.path(), 1e30, "--output"); }), ErrorKind::kIo);
  EXPECT_NO_THROW(require_space("/nowhere", 1e30, "--output")) << "nothing is known";
}

}  // namespace
}  // namespace retina
