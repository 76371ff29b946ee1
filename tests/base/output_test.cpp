#include "shared/base/output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

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

TEST(OwnFile, MayBeReplacedAndSoMayAnEmptyOneAndNone) {
  const TestFolder folder;
  write_file_atomically(folder / "ours", "<html><title>ours</title>");
  write_file_atomically(folder / "empty", "");
  for (const char* name : {"ours", "empty", "none"}) EXPECT_EQ(refusal(folder / name), "accepted");
}

TEST(OwnFile, WhatSomebodyElseWroteStays) {
  const TestFolder folder;
  write_file_atomically(folder / "theirs", "<html><title>theirs</title>");
  EXPECT_THAT(refusal(folder / "theirs"), HasSubstr("theirs: exists and is not ours to replace"));
  EXPECT_THAT(refusal(folder.path()), HasSubstr("is a folder"));
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(refusal(folder / "pipe"), HasSubstr("not ours"));
}

TEST(OwnFile, IsThereWhereItHasContent) {
  const TestFolder folder;
  write_file_atomically(folder / "full", "x");
  write_file_atomically(folder / "empty", "");
  EXPECT_TRUE(has_file(folder / "full", "--page"));
  EXPECT_FALSE(has_file(folder / "empty", "--page"));
  EXPECT_FALSE(has_file(folder / "none", "--page"));
  EXPECT_THAT(refusal_of(ErrorKind::kCannotCreate, [&] { has_file(folder.path(), "--page"); }),
              HasSubstr("is a folder (want a file)"));
}

TEST(Settings, ThatAreEqualDoNotDiffer) {
  EXPECT_EQ(differences({}, {}), "");
  EXPECT_EQ(differences({{"lr", "0.1"}, {"seed", "1"}}, {{"seed", "1"}, {"lr", "0.1"}}), "");
}

TEST(Settings, TellEveryDifferenceWithBothValues) {
  EXPECT_EQ(differences({{"lr", "0.1"}, {"seed", "1"}, {"size", "8"}},
                        {{"lr", "0.2"}, {"size", "8"}, {"depth", "50"}}),
            "depth (was unset, now 50), lr (was 0.1, now 0.2), seed (was 1, now unset)");
}

}  // namespace
}  // namespace retina
