#include "shared/base/hash.h"

#include <gtest/gtest.h>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

// Known answers of XXH3_64bits, seed 0.
TEST(Xxh3, GivesTheKnownAnswers) {
  EXPECT_EQ(xxh3(""), 0x2d06800538d394c2U);
  EXPECT_EQ(xxh3("abc"), 0x78af5f94892f3950U);
}

TEST(Xxh3, OfPiecesAndOfAFileEqualsXxh3OfTheWhole) {
  std::string bytes(10000, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31);
  for (const std::size_t piece : {1U, 7U, 240U, 4096U}) {
    Hasher hasher;
    for (std::size_t i = 0; i < bytes.size(); i += piece) {
      hasher.update(bytes.data() + i, std::min(piece, bytes.size() - i));
    }
    EXPECT_EQ(hasher.digest(), xxh3(bytes)) << "pieces of " << piece;
  }
  const TestFolder folder;
  write_file_atomically(folder / "file", bytes);
  EXPECT_EQ(xxh3_file(folder / "file"), xxh3(bytes));
}

// RFC 3720, appendix B.4, and the usual check.
TEST(Crc32c, GivesTheKnownAnswers) {
  std::string ascending(32, '\0');
  for (std::size_t i = 0; i < ascending.size(); ++i) ascending[i] = static_cast<char>(i);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  EXPECT_EQ(crc32c(ascending), 0x46dd794eU);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(""), 0U);
}

TEST(Hex64, RoundTripsAndIsSixteenDigits) {
  for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{0x0123456789abcdef}, ~0UL}) {
    EXPECT_EQ(parse_hex64(hex64(value), "here"), value);
  }
  EXPECT_EQ(hex64(0xab), "00000000000000ab");
  for (const char* text : {"", "ab", "00000000000000ag", "00000000000000ab0", "-0000000000000ab"}) {
    EXPECT_THROW(parse_hex64(text, "here"), Error) << text;
  }
}

}  // namespace
}  // namespace retina
