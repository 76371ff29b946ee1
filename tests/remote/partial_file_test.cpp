#include "shared/remote/partial_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "shared/base/descriptor.h"
#include "shared/base/file.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

constexpr std::uint64_t kSize = 25, kPart = 10;

class PartialFileTest : public testing::Test {
 protected:
  PartialFile open() const { return PartialFile(file_.get(), kSize, kPart); }
  TestFolder folder_;
  std::string path_ = folder_ / "file";
  Descriptor file_{path_, O_RDWR | O_CREAT};
};

TEST_F(PartialFileTest, IsCutIntoPartsWhoseLastIsShorter) {
  const PartialFile file = open();
  ASSERT_EQ(file.part_count(), 3U);
  EXPECT_EQ(file.range_of(1).begin, 10U);
  EXPECT_EQ(file.range_of(2).end, kSize);
  EXPECT_FALSE(file.is_whole());
  EXPECT_GE(file_size_bytes(path_), kSize) << "it counts under limits at once";
}

TEST_F(PartialFileTest, GoesOnWithTheWholePartsThatAnotherProcessLeft) {
  {
    PartialFile file = open();
    file.begin(7);
    file.write(10, "0123456789");
    file.mark(1);
    file.write(0, "half ");
  }
  PartialFile file = open();
  EXPECT_EQ(file.version(), 7U);
  EXPECT_FALSE(file.has(0));
  EXPECT_TRUE(file.has(1));
  file.write(0, "abcdefghij");
  file.mark(0);
  file.write(20, "vwxyz");
  file.mark(2);
  EXPECT_TRUE(file.is_whole());
  file.finish();
  EXPECT_EQ(read_file(path_), "abcdefghij0123456789vwxyz");
}

TEST_F(PartialFileTest, ForgetsItsPartsWithTheirVersion) {
  PartialFile file = open();
  file.begin(7);
  file.mark(1);
  file.begin(8);
  EXPECT_EQ(open().version(), 8U);
  EXPECT_FALSE(open().has(1));
}

TEST_F(PartialFileTest, WhatIsNoneOfItsFilesBeginsAnew) {
  PartialFile(file_.get(), kSize, 5).begin(7);
  EXPECT_EQ(open().version(), 0U) << "parts of another size";
  for (const std::uint64_t size : {0, 25, 52, 60}) {
    ASSERT_EQ(::ftruncate(file_.get(), static_cast<off_t>(size)), 0);
    EXPECT_EQ(open().version(), 0U) << size;
    EXPECT_FALSE(open().has(0)) << size;
  }
}

TEST_F(PartialFileTest, ADiskThatTakesNoMoreIsASystemError) {
  const Descriptor closed(path_, O_RDONLY);
  EXPECT_THROW(PartialFile(closed.get(), kSize + 1, kPart), std::system_error);
}

}  // namespace
}  // namespace retina
