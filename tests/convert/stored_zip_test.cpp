#include "shared/checkpoint/foreign/stored_zip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "tests/convert/pth_writer.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;

const NamedBytes kFiles = {{"a/data.pkl", "pickle"}, {"a/data/0", "tensor"}, {"a/empty", ""}};

std::string refusal_of_zip(const std::string& bytes) {
  return refusal_of(ErrorKind::kData, [&] {
    const StoredZip zip(bytes, "w.pth");
    for (const auto& [name, content] : kFiles) zip.read(name);
  });
}

TEST(StoredZip, GivesEachFilesBytes) {
  for (const bool zip64 : {false, true}) {
    const std::string bytes = stored_zip(kFiles, zip64);
    const StoredZip zip(bytes, "w.pth");
    for (const auto& [name, content] : kFiles) EXPECT_EQ(zip.read(name), content);
    EXPECT_FALSE(zip.has("a/other"));
    EXPECT_EQ(zip.folder_of("data.pkl"), "a/");
  }
}

TEST(StoredZip, EveryCutIsRefused) {
  const std::string bytes = stored_zip(kFiles);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_NE(refusal_of_zip(bytes.substr(0, length)), "accepted") << length;
  }
}

TEST(StoredZip, AFlippedBitOfAFileIsFound) {
  std::string bytes = stored_zip(kFiles);
  bytes[bytes.find("tensor")] ^= 1;
  EXPECT_THAT(refusal_of_zip(bytes), HasSubstr("CRC-32 of a/data/0"));
}

TEST(StoredZip, CompressedEncryptedAndDoubledFilesAreRefused) {
  const std::string bytes = stored_zip(kFiles);
  const std::size_t entry = bytes.find("PK\1\2");
  std::string changed = bytes;
  changed[entry + 10] = 8;  // deflated
  EXPECT_THAT(refusal_of_zip(changed), HasSubstr("compressed"));
  changed = bytes;
  changed[entry + 8] = 1;
  EXPECT_THAT(refusal_of_zip(changed), HasSubstr("encrypted"));
  EXPECT_THAT(refusal_of_zip(stored_zip({{"a/x", "1"}, {"a/x", "2"}})),
              HasSubstr("the same name, a/x"));
  EXPECT_THAT(refusal_of_zip(stored_zip({{"a/x", "1"}, {"A/X", "2"}})), HasSubstr("the same name"));
}

// LibTorch's reader opens the same bytes: what it would find elsewhere is refused.
TEST(StoredZip, WhatTwoReadersCouldUnderstandInTwoWaysIsRefused) {
  for (const bool zip64 : {false, true}) {
    const std::string bytes = stored_zip(kFiles, zip64);
    EXPECT_NE(refusal_of_zip("x" + bytes), "accepted") << zip64;
    const std::size_t end = bytes.rfind("PK\5\6");
    EXPECT_NE(refusal_of_zip(bytes.substr(0, end) + "x" + bytes.substr(end)), "accepted") << zip64;
    std::string changed = bytes;
    changed[end + 20] = 22;  // a comment, which is another archive's end
    EXPECT_NE(refusal_of_zip(changed + bytes.substr(end)), "accepted") << zip64;
  }
}

TEST(StoredZip, FilesThatShareTheirBytesAreRefused) {
  std::string bytes = stored_zip(kFiles);
  const std::size_t first = bytes.find("PK\1\2"), second = bytes.find("PK\1\2", first + 1);
  bytes.replace(first + 16, 12, bytes.substr(second + 16, 12));  // CRC-32 and sizes
  bytes.replace(first + 42, 4, bytes.substr(second + 42, 4));    // the place
  EXPECT_THAT(refusal_of_zip(bytes), HasSubstr("overlap"));
}

TEST(StoredZip, OfAFileIsTheSameAsOfItsBytes) {
  const TestFolder folder;
  write_file_atomically(folder / "z", stored_zip(kFiles));
  const StoredZip zip = StoredZip::open(folder / "z");
  for (const auto& [name, content] : kFiles) EXPECT_EQ(zip.read(name), content);
  EXPECT_EQ(zip.names().size(), kFiles.size());
}

TEST(StoredZip, NumbersThatPointOutsideAreRefused) {
  const std::string bytes = stored_zip(kFiles);
  const std::size_t entry = bytes.find("PK\1\2");
  for (const std::size_t field : {24, 42}) {  // the size, the place
    std::string changed = bytes;
    for (std::size_t i = 0; i < 3; ++i) changed[entry + field + i] = '\xff';
    EXPECT_NE(refusal_of_zip(changed), "accepted") << field;
  }
}

}  // namespace
}  // namespace retina
