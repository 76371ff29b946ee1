#include "shared/shard/staged_file.h"

#include <gtest/gtest.h>

#include "shared/base/file.h"
#include "tests/shard/small_set.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

TEST(StagedFile, IsACopyThatHasNoName) {
  const TestFolder folder;
  std::string bytes;
  small_record(1, 3'000'000, bytes);
  write_plain_file(folder / "source", bytes);
  const StagedFile staged(folder / "source", folder / "local/deep");
  EXPECT_TRUE(read_file(staged.path()) == bytes);
  EXPECT_EQ(file_size_bytes(staged.path()), bytes.size());
  EXPECT_TRUE(file_names(folder / "local/deep").empty());
  write_plain_file(folder / "source", "changed");
  EXPECT_TRUE(read_file(staged.path()) == bytes);
}

TEST(StagedFile, NamesAMissingSourceAndAFolderThatCannotBe) {
  const TestFolder folder;
  write_plain_file(folder / "source", "bytes");
  EXPECT_EQ(error_kind([&] { StagedFile(folder / "gone", folder.path()); }), ErrorKind::kNoInput);
  EXPECT_EQ(error_kind([&] { StagedFile(folder / "source", folder / "source"); }),
            ErrorKind::kCannotCreate);
}

}  // namespace
}  // namespace retina
