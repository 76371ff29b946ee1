#include "shared/checkpoint/foreign/stored_zip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shared/base/error.h"
#include "tests/convert/pth_writer.h"

namespace retina {
namespace {

using testing::HasSubstr;

const NamedBytes kFiles = {{"a/data.pkl", "pickle"}, {"a/data/0", "tensor"}, {"a/empty", ""}};

std::string refusal(const std::string& bytes) {
  try {
    const StoredZip zip(bytes, "w.pth");
    for (const auto& [name, content] : kFiles) zip.read(name);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    return error.what();
  }
  return "accepted";
}

TEST(StoredZip, KnowsTheCheckValueOfCrc32) {
  EXPECT_EQ(crc32("123456789"), 0xcbf43926U);
  EXPECT_EQ(crc32(""), 0U);
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
    EXPECT_NE(refusal(bytes.substr(0, length)), "accepted") << length;
  }
}

TEST(StoredZip, AFlippedBitOfAFileIsFound) {
  std::string bytes = stored_zip(kFiles);
  bytes[bytes.find("tensor")] ^= 1;
  EXPECT_THAT(refusal(bytes), HasSubstr("CRC-32 of a/data/0"));
}

TEST(StoredZip, CompressedEncryptedAndDoubledFilesAreRefused) {
  const std::string bytes = stored_zip(kFiles);
  const std::size_t entry = bytes.find("PK\1\2");
  std::string changed = bytes;
  changed[entry + 10] = 8;  // deflated
  EXPECT_THAT(refusal(changed), HasSubstr("compressed"));
  changed = bytes;
  changed[entry + 8] = 1;
  EXPECT_THAT(refusal(changed), HasSubstr("encrypted"));
  EXPECT_THAT(refusal(stored_zip({{"a/x", "1"}, {"a/x", "2"}})), HasSubstr("one name"));
}

TEST(StoredZip, NumbersThatPointOutsideAreRefused) {
  const std::string bytes = stored_zip(kFiles);
  const std::size_t entry = bytes.find("PK\1\2");
  for (const std::size_t field : {24, 42}) {  // the size, the place
    std::string changed = bytes;
    for (std::size_t i = 0; i < 3; ++i) changed[entry + field + i] = '\xff';
    EXPECT_NE(refusal(changed), "accepted") << field;
  }
}

}  // namespace
}  // namespace retina
