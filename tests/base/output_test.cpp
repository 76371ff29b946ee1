#include "shared/base/output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "shared/base/file.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;

std::string refusal(const std::string& path) {
  return refusal_of(ErrorKind::kCannotCreate,
                    [&] { check_may_replace(path, "<title>ours</title>", "--page"); });
}

template <class Body>
void expect_refused(ErrorKind kind, const Body& body) {
  EXPECT_NE(refusal_of(kind, body), "accepted");
}

TEST(OwnFile, MayBeReplacedAndSoMayAnEmptyOneAndNone) {
  const TestFolder folder;
  write_file_atomically(folder / "ours", "<html><title>ours</title>");
  write_file_atomically(folder / "empty", "");
  for (const char* name : {"ours", "empty", "none"}) EXPECT_EQ(refusal(folder / name), "accepted");
  write_file_atomically(folder / "theirs", "<html><title>theirs</title>");
  EXPECT_THAT(refusal(folder / "theirs"), HasSubstr("theirs: exists and is not ours to replace"));
  EXPECT_THAT(refusal(folder.path()), HasSubstr("is a folder"));
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(refusal(folder / "pipe"), HasSubstr("not ours"));
}

TEST(Settings, AreComparedWithBothValues) {
  EXPECT_EQ(differences({{"lr", "0.1"}, {"seed", "1"}}, {{"seed", "1"}, {"lr", "0.1"}}), "");
  EXPECT_EQ(differences({{"lr", "0.1"}, {"seed", "1"}, {"size", "8"}},
                        {{"lr", "0.2"}, {"size", "8"}, {"depth", "50"}}),
            "depth (was unset, now 50), lr (was 0.1, now 0.2), seed (was 1, now unset)");
}

TEST(Scratch, IsAPlaceOfItsOwnAndIsGoneAtTheEnd) {
  const TestFolder folder;
  const std::string output = folder / "out/file";
  std::string built;
  {
    const Scratch scratch(folder / "local", folder / "out");
    const Scratch other(folder / "local", folder / "other");
    built = scratch.build_path(output);
    EXPECT_NE(built, other.build_path(output));
    write_file_atomically(built, "x");
  }
  EXPECT_FALSE(path_exists(built));
  EXPECT_EQ(Scratch().build_path(output), output);
  EXPECT_EQ(Scratch("", folder / "out").build_path(output), output);
  // A killed job leaves its files.
  make_folder_of(built);
  write_file_atomically(built, "left");
  const Scratch again(folder / "local", folder / "out");
  EXPECT_FALSE(path_exists(built));
}

TEST(FolderLock, RefusesASecondHolder) {
  const TestFolder folder;
  {
    const FolderLock lock(folder.path());
    expect_refused(ErrorKind::kConfig, [&] { const FolderLock second(folder.path()); });
  }
  const FolderLock again(folder.path());
  expect_refused(ErrorKind::kCannotCreate, [] { const FolderLock lock("/nowhere"); });
}

TEST(FileLock, RefusesASecondHolderAndLeavesNothing) {
  const TestFolder folder;
  const std::string path = folder / "model.pt";
  {
    const FileLock lock(path), other(folder / "other.pt");
    expect_refused(ErrorKind::kConfig, [&] { const FileLock second(path); });
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  const FileLock again(path);
  expect_refused(ErrorKind::kCannotCreate, [] { const FileLock lock("/nowhere/model.pt"); });
}

}  // namespace
}  // namespace retina
