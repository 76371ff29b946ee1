#include "shared/base/foreign_content.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;
using namespace std::string_literals;

std::string kind_of(const std::string& start) {
  const auto foreign = foreign_content(start);
  return foreign ? foreign->what : "text";
}

TEST(ForeignContent, IsNamedByItsFirstBytes) {
  const std::vector<std::pair<std::string, std::string>> known{
      {"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "a Git LFS pointer"},
      {"outs:\n- md5: 00\n", "a DVC pointer"},
      {"\n <!DOCTYPE html>\n<html>", "a web page (HTML)"},
      {"\xEF\xBB\xBF<html lang=\"en\">", "a web page (HTML)"},
      {"<body>moved</body>", "a web page (HTML)"},
      {"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>", "XML"},
      {"\xFF\xFE{\0"s, "UTF-16 text"},
      {"\xFE\xFF\0{"s, "UTF-16 text"},
      {"{\0\"\0"s, "UTF-16 text"},
      {"\0{\0\""s, "UTF-16 text"},
      {"\xFF\xFE\0\0{\0\0\0"s, "UTF-32 text"},
      {"\x1F\x8B\x08\0"s, "a gzip archive"},
      {"PK\x03\x04", "a zip archive"},
      {"file" + std::string(253, '\0') + "ustar", "a tar archive"},
      {"\0\0\0\x20"
       "ftypisom"s,
       "a video"},
      {"\0\0\0\x14"
       "ftypqt  "s,
       "a video"},
      {"\x1A\x45\xDF\xA3\x9F"s, "a video"},
      {"RIFF\x24\x10\0\0AVI LIST"s, "a video"},
      {"", "an empty file"},
      {" \r\n\t", "a blank file"},
      {std::string(40, '\0'), "nothing but zero bytes"}};
  for (const auto& [start, what] : known) EXPECT_EQ(kind_of(start), what);
}

// They begin as MP4 does.
TEST(ForeignContent, APhotographInHeifIsNoVideo) {
  for (const char* brand : {"heic", "hevc", "mif1", "avif"}) {
    EXPECT_EQ(kind_of("\0\0\0\x18"
                      "ftyp"s +
                      brand),
              "text")
        << brand;
  }
}

TEST(ForeignContent, TextOfAnyLanguageIsNone) {
  for (const char* text : {"{", "[]", "cat\ndog\n", "<unknown>\ncat\n", "\xE7\x8C\xAB\n", "-1",
                           "version: 1\nnames: [cat]\n"}) {
    EXPECT_EQ(kind_of(text), "text") << text;
  }
}

// Every reader of JSON is one of these two.
TEST(ForeignContent, InThePlaceOfJsonHasItsCure) {
  const TestFolder folder;
  const std::string path = folder / "f.json",
                    pointer = "version https://git-lfs.github.com/spec/v1\n";
  write_file_atomically(path, pointer);
  try {
    JsonFile::read(path);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), path + ": got a Git LFS pointer, want JSON");
    EXPECT_THAT(error.hint(), HasSubstr("git lfs pull"));
  }
  EXPECT_EQ(refusal_of(ErrorKind::kData, [&] { check_foreign_json(pointer, path); }),
            path + ": got a Git LFS pointer, want JSON");
}

}  // namespace
}  // namespace retina
