#include "shared/checkpoint/sealed_file.h"

#include <gtest/gtest.h>

#include <string>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

// The bytes of an empty zip after `body`: what matters here is the end record.
std::string zip_like(const std::string& body) {
  return "PK" + body + std::string("PK\5\6", 4) + std::string(18, '\0');
}

TEST(SealedFile, TheSealIsTheArchivesCommentWhateverThePieces) {
  const TestFolder folder;
  const std::string zip = zip_like(std::string(1000, 'x'));
  std::string whole;
  for (const std::size_t piece : {1u, 5u, 21u, 22u, 23u, 100u, 2000u}) {
    const std::uint64_t hash = write_sealed(folder / "f", [&](const ByteSink& sink) {
      for (std::size_t at = 0; at < zip.size(); at += piece) {
        const std::string part = zip.substr(at, piece);
        EXPECT_EQ(sink(part.data(), part.size()), part.size());
      }
    });
    const std::string bytes = read_file(folder / "f");
    ASSERT_EQ(bytes.size(), zip.size() + 28) << piece;
    EXPECT_EQ(bytes[zip.size() - 2], 28) << piece;  // the comment's length
    EXPECT_EQ(bytes.substr(zip.size()), "retina-xxh3:" + hex64(hash));
    EXPECT_EQ(check_seal(folder / "f", "checkpoint"), hash);
    if (whole.empty()) whole = bytes;
    EXPECT_EQ(bytes, whole) << piece;
  }
}

TEST(SealedFile, AWriterThatFailsOrGivesNoFinishedZipPublishesNothing) {
  const TestFolder folder;
  const std::string zip = zip_like("x");
  EXPECT_THROW(write_sealed(folder / "f",
                            [](const ByteSink& sink) { sink("PK without an end record", 24); }),
               Error);
  EXPECT_THROW(write_sealed(folder / "f",
                            [&](const ByteSink& sink) {
                              sink(zip.data(), zip.size());
                              throw Error(ErrorKind::kAnswerNo, "no");
                            }),
               Error);
  EXPECT_FALSE(path_exists(folder / "f"));
  EXPECT_FALSE(path_exists(folder / "f.tmp"));
}

TEST(SealedFile, AnUnsealedZipIsNamedAsSuch) {
  const TestFolder folder;
  write_file_atomically(folder / "f", zip_like(std::string(100, 'x')));
  const std::string words =
      refusal_of(ErrorKind::kData, [&] { check_seal(folder / "f", "checkpoint"); });
  EXPECT_NE(words.find("seal is missing"), std::string::npos) << words;
}

}  // namespace
}  // namespace retina
