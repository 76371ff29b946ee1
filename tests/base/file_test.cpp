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
  for (const char* good : {"shard-1.lmdb", "shard-00012.lmdb", "12", "-12"}) {
    EXPECT_TRUE(name_matches(good, kPattern)) << good;
  }
  for (const char* bad :
       {"", "shard-.lmdb", "shard-1xlmdb", "xshard-1.lmdb", "shard-1.lmdbx", "1"}) {
    EXPECT_FALSE(name_matches(bad, kPattern)) << bad;
  }
  EXPECT_FALSE(name_matches(std::string("12\0x", 4), kPattern));
  EXPECT_FALSE(name_matches("12\n", kPattern));
}

TEST(ReadFile, NamesAMissingFileAndAFolderAsMissingInput) {
  const TestFolder folder;
  EXPECT_EQ(kind_of([&] { read_file(folder / "missing"); }), ErrorKind::kNoInput);
  EXPECT_EQ(kind_of([&] { read_file(folder.path()); }), ErrorKind::kNoInput);
  EXPECT_EQ(kind_of([&] { file_size_bytes(folder / "missing"); }), ErrorKind::kNoInput);
}

// What may not be read is there: neither gone nor a fault of the mount.
TEST(ReadFile, SaysWhatThisUserMayNotRead) {
  const TestFolder folder;
  write_file_atomically(folder / "file", "x");
  make_folder(folder / "closed/inside");
  std::filesystem::permissions(folder / "file", std::filesystem::perms::none);
  std::filesystem::permissions(folder / "closed", std::filesystem::perms::none);
  {
    const Unprivileged nobody(folder.path());
    for (const std::string path : {"file", "closed/inside/file"}) {
      EXPECT_EQ(refusal_of(ErrorKind::kNoInput, [&] { read_file(folder / path); }),
                folder / path + ": may not be read (Permission denied)");
    }
    for (const std::string path : {"closed", "closed/inside"}) {
      EXPECT_EQ(refusal_of(ErrorKind::kNoInput, [&] { require_folder(folder / path, ""); }),
                folder / path + ": may not be read (Permission denied)");
    }
    EXPECT_THAT(read_error("a", EACCES).hint(), HasSubstr(cat("user ", ::geteuid())));
  }
  std::filesystem::permissions(folder / "closed", std::filesystem::perms::all);
  EXPECT_NO_THROW(require_folder(folder / "closed", ""));
  EXPECT_THAT(refusal_of(ErrorKind::kNoInput, [&] { require_folder(folder / "file", ""); }),
              HasSubstr("is not a folder"));
  EXPECT_THAT(refusal_of(ErrorKind::kNoInput, [&] { require_folder(folder / "none", ""); }),
              HasSubstr("does not exist"));
}

TEST(ReadFile, ReturnsEveryByte) {
  const TestFolder folder;
  const std::string bytes("a\0b\n\xff", 5);
  write_file_atomically(folder / "file", bytes);
  EXPECT_EQ(read_file(folder / "file"), bytes);
  EXPECT_EQ(file_size_bytes(folder / "file"), 5U);
}

TEST(FileReader, TakesRegularFilesAlone) {
  const TestFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("/dev/zero", folder / "endless");
  std::filesystem::create_symlink("/proc/self/status", folder / "kernel");
  for (const char* name : {"pipe", "endless", "kernel"}) {
    const std::string path = folder / name;
    const std::string words = refusal_of(ErrorKind::kNoInput, [&] { FileReader file(path); });
    EXPECT_THAT(words, HasSubstr(path + ": is a ")) << name;
    EXPECT_THAT(words, HasSubstr("want ")) << name;
  }
  EXPECT_EQ(kind_of([&] { file_size_bytes(folder / "pipe"); }), ErrorKind::kNoInput);
}

TEST(FileReader, ReadsFromAnyPlaceBesideItsOwn) {
  const TestFolder folder;
  write_file_atomically(folder / "a", "hello");
  FileReader file(folder / "a");
  std::string bytes(3, '?');
  EXPECT_EQ(file.read_at(2, bytes.data(), 3), 3U);
  EXPECT_EQ(bytes, "llo");
  EXPECT_EQ(file.read_at(4, bytes.data(), 3), 1U);
  EXPECT_EQ(file.read(bytes.data(), 3), 3U);
  EXPECT_EQ(bytes, "hel");
}

// A hole of a terabyte costs nothing on the disk.
TEST(ReadText, RefusesWhatIsTooLargeBeforeReadingIt) {
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

TEST(ReadStart, ReturnsNoMoreThanAskedFor) {
  const TestFolder folder;
  write_file_atomically(folder / "a", "hello");
  EXPECT_EQ(read_start(folder / "a", 3), "hel");
  EXPECT_EQ(read_start(folder / "a", 100), "hello");
  EXPECT_EQ(read_part(folder / "a", 1, 3), "ell");
  EXPECT_EQ(read_part(folder / "a", 3, 100), "lo");
  EXPECT_EQ(read_part(folder / "a", 5, 1), "");
  EXPECT_EQ(read_part(folder / "a", 500, 1), "");
  EXPECT_THROW(read_start(folder.path(), 3), Error);
  EXPECT_THROW(read_start(folder / "b", 3), Error);
  EXPECT_THROW(read_part(folder / "b", 0, 3), Error);
}

TEST(ReadError, TellsWhatIsMissingFromAMountThatFails) {
  for (const int code : {ENOENT, ENOTDIR, EACCES, EISDIR, EOPNOTSUPP}) {
    EXPECT_EQ(read_error("f", code).kind(), ErrorKind::kNoInput);
  }
  const TestFolder folder;
  EXPECT_EQ(kind_of([&] { file_size_bytes(folder.path()); }), ErrorKind::kNoInput);
  for (const int code : {EMFILE, ENOMEM}) {
    EXPECT_EQ(read_error("f", code).kind(), ErrorKind::kUnavailable);
  }
  for (const int code : {EIO, ESTALE, ETIMEDOUT, ENOTCONN}) {
    EXPECT_EQ(read_error("f", code).kind(), ErrorKind::kIo);
    EXPECT_THAT(read_error("f", code).hint(), HasSubstr("mount"));
  }
}

TEST(MakeFolder, RefusesAFileOfThatName) {
  const TestFolder folder;
  write_file_atomically(folder / "name", "x");
  EXPECT_EQ(kind_of([&] { make_folder(folder / "name"); }), ErrorKind::kCannotCreate);
  make_folder(folder / "deep/er");
  EXPECT_TRUE(is_folder(folder / "deep/er"));
}

TEST(AtomicFile, KeepsTheOldContentUntilTheCommit) {
  const TestFolder folder;
  const std::string path = folder / "file";
  write_file_atomically(path, "old");
  AtomicFile file(path);
  file.write("new");
  EXPECT_EQ(read_file(path), "old");
  file.commit();
  EXPECT_EQ(read_file(path), "new");
  EXPECT_FALSE(path_exists(file.temporary_path()));
}

TEST(AtomicFile, LeavesNothingWhenItIsGivenUp) {
  const TestFolder folder;
  std::string temporary;
  {
    AtomicFile file(folder / "file");
    file.write("half");
    temporary = file.temporary_path();
    EXPECT_TRUE(path_exists(temporary));
  }
  EXPECT_FALSE(path_exists(temporary));
  EXPECT_FALSE(path_exists(folder / "file"));
}

TEST(AtomicFile, KeepsTheOldContentWhenTheProcessIsKilledWhileWriting) {
  const TestFolder folder;
  const std::string path = folder / "file";
  write_file_atomically(path, "old");
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    AtomicFile file(path);
    file.write("half of the new cont");
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(read_file(path), "old");
  write_file_atomically(path, "new");  // what the killed one left is no obstacle
  EXPECT_EQ(read_file(path), "new");
}

TEST(AtomicFile, KeepsTheOldContentWhenVerifyRefuses) {
  const TestFolder folder;
  const std::string path = folder / "file";
  write_file_atomically(path, "old");
  AtomicFile file(path);
  file.write("new");
  EXPECT_EQ(kind_of([&] {
              file.commit([](const std::string& temporary) {
                EXPECT_EQ(read_file(temporary), "new");
                throw Error(ErrorKind::kIo, "does not read back");
              });
            }),
            ErrorKind::kIo);
  EXPECT_EQ(read_file(path), "old");
}

TEST(AtomicFile, SaysThatTheOutputCannotBeCreated) {
  const TestFolder folder;
  EXPECT_EQ(kind_of([&] { AtomicFile file(folder / "missing/file"); }), ErrorKind::kCannotCreate);
}

TEST(AtomicFile, ReportsAFullDiskAsAnInputOutputError) {
  if (!path_exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  const TestFolder folder;
  ASSERT_EQ(::symlink("/dev/full", (folder / "file.tmp").c_str()), 0);
  EXPECT_EQ(kind_of([&] { write_file_atomically(folder / "file", "bytes"); }), ErrorKind::kIo);
  EXPECT_FALSE(path_exists(folder / "file"));
}

TEST(AppendFile, GoesOnBehindWhatIsThere) {
  const TestFolder folder;
  for (const char* line : {"one\n", "two\n"}) {
    AppendFile file(folder / "file");
    file.append(line);
    file.sync();
  }
  EXPECT_EQ(read_file(folder / "file"), "one\ntwo\n");
}

TEST(AppendFile, SaysThatTheOutputCannotBeCreated) {
  const TestFolder folder;
  EXPECT_EQ(kind_of([&] { AppendFile file(folder / "missing/file"); }), ErrorKind::kCannotCreate);
}

TEST(AppendFile, ReportsAFullDiskAsAnInputOutputError) {
  if (!path_exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  AppendFile file("/dev/full");
  EXPECT_EQ(kind_of([&] { file.append("bytes"); }), ErrorKind::kIo);
}

TEST(RecoverFile, BringsAFileBackThatStoodAside) {
  const TestFolder folder;
  const std::string path = folder / "file";
  recover_file(path);
  EXPECT_FALSE(path_exists(path));
  write_file_atomically(path + ".old", "old");
  recover_file(path);
  EXPECT_EQ(read_file(path), "old");
  write_file_atomically(path + ".old", "older");
  recover_file(path);
  EXPECT_EQ(read_file(path), "old") << "a file that is there stays";
}

TEST(DeliverFile, CopiesEveryByteAndSaysTheirHash) {
  const TestFolder folder;
  const std::string bytes(3 << 20, 'x');
  write_file_atomically(folder / "source", bytes);
  EXPECT_EQ(deliver_file(folder / "source", folder / "target"), xxh3(bytes));
  EXPECT_EQ(read_file(folder / "target"), bytes);
  EXPECT_TRUE(path_exists(folder / "source"));
  EXPECT_EQ(kind_of([&] { deliver_file(folder / "gone", folder / "target"); }),
            ErrorKind::kNoInput);
  EXPECT_EQ(kind_of([&] { deliver_file(folder / "source", folder / "no/target"); }),
            ErrorKind::kCannotCreate);
  EXPECT_EQ(read_file(folder / "target"), bytes);
}

TEST(AsIoError, TakesWhatCannotBeCreatedForAnInputOutputError) {
  EXPECT_EQ(as_io_error([] { return 7; }), 7);
  EXPECT_EQ(kind_of([] { as_io_error([] { AtomicFile file("/nowhere/file"); }); }), ErrorKind::kIo);
  EXPECT_EQ(kind_of([] { as_io_error([] { throw Error(ErrorKind::kData, "x"); }); }),
            ErrorKind::kData);
}

TEST(RequireSpace, RefusesWhatCannotFit) {
  const TestFolder folder;
  EXPECT_NO_THROW(require_space(folder.path(), 1, "--output"));
  EXPECT_EQ(kind_of([&] { require_space(folder.path(), 1e30, "--output"); }), ErrorKind::kIo);
  EXPECT_NO_THROW(require_space("/nowhere", 1e30, "--output")) << "nothing is known";
}

}  // namespace
}  // namespace retina
