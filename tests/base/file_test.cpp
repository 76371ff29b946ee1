#include "shared/base/file.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared/base/error.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

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

TEST(ReadFile, NamesAMissingFileAndAFolderAsMissingInput) {
  const TestFolder folder;
  EXPECT_EQ(kind_of([&] { read_file(folder / "missing"); }), ErrorKind::kNoInput);
  EXPECT_EQ(kind_of([&] { read_file(folder.path()); }), ErrorKind::kNoInput);
  EXPECT_EQ(kind_of([&] { file_size_bytes(folder / "missing"); }), ErrorKind::kNoInput);
}

TEST(ReadFile, ReturnsEveryByte) {
  const TestFolder folder;
  const std::string bytes("a\0b\n\xff", 5);
  write_file_atomically(folder / "file", bytes);
  EXPECT_EQ(read_file(folder / "file"), bytes);
  EXPECT_EQ(file_size_bytes(folder / "file"), 5U);
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

TEST(FolderLock, RefusesASecondHolder) {
  const TestFolder folder;
  {
    const FolderLock lock(folder.path());
    EXPECT_EQ(kind_of([&] { const FolderLock second(folder.path()); }), ErrorKind::kConfig);
  }
  const FolderLock again(folder.path());
}

TEST(FolderLock, SaysThatAMissingFolderCannotBeWritten) {
  EXPECT_EQ(kind_of([] { const FolderLock lock("/nowhere"); }), ErrorKind::kCannotCreate);
}

}  // namespace
}  // namespace retina
