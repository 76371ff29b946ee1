#include "shared/base/file_spelling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace retina {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kComposed = "caf\xC3\xA9.jpg";
constexpr const char* kDecomposed = "cafe\xCC\x81.jpg";

TEST(FileSpelling, OtherSystemsSpellNamesOtherwise) {
  const auto others = [](const char* name) { return other_spellings(name, "images"); };
  for (const char* plain : {"a/b 1.jpg", "100%.jpg", "a%00.jpg", "caf\xE9.jpg", "myimages/a.jpg"}) {
    EXPECT_THAT(others(plain), IsEmpty()) << plain;
  }
  EXPECT_THAT(others("s\\a%20b%2Fc.jpg"), ElementsAre("s/a%20b%2Fc.jpg", "s/a b/c.jpg"));
  EXPECT_THAT(others(kComposed), ElementsAre(kDecomposed));
  EXPECT_THAT(others(kDecomposed), ElementsAre(kComposed));
  EXPECT_THAT(others("d.1/a"), Contains("d.1/a.jpg"));
  EXPECT_THAT(others("images/a"), Contains("a.png"));
}

TEST(FileSpelling, ThePathUpToTheFoldersOwnNameIsDropped) {
  EXPECT_THAT(other_spellings("/old/images/sub/a.jpg", "images"), ElementsAre("sub/a.jpg"));
  EXPECT_THAT(other_spellings("../images/a.jpg", "images"), ElementsAre("a.jpg"));
  EXPECT_THAT(other_spellings("C:\\images\\a.jpg", "images"),
              ElementsAre("C:/images/a.jpg", "a.jpg"));
  EXPECT_THAT(other_spellings("images/x/images/a.jpg", "images"),
              ElementsAre("x/images/a.jpg", "a.jpg"));
}

TEST(FileSpelling, LookAlikesShareTheirKey) {
  const std::string key = look_alike_key("caf\xC3\xA9.jpg");
  for (const char* name :
       {"CAF\xC3\x89.JPG", "x/cafe\xCC\x81.png", "y\\caf%C3%A9", "caf\xC3\xA9"}) {
    EXPECT_EQ(look_alike_key(name), key) << name;
  }
  EXPECT_NE(look_alike_key("cafe.jpg"), key);
  EXPECT_EQ(look_alike_key(".hidden"), ".hidden");
}

TEST(FileSpelling, NamesThatLookTheSameAreSaidToDiffer) {
  EXPECT_EQ(describe_spelling("s\\a.jpg", "s/a.jpg"), "s\\a.jpg is s/a.jpg");
  EXPECT_THAT(describe_spelling(kComposed, kDecomposed),
              testing::EndsWith(", its accents in another Unicode form"));
}

TEST(Droppings, AreKnownByTheirNames) {
  for (const char* name :
       {".", "._a.jpg", ".DS_Store", "Thumbs.db", "thumbs.db", "desktop.ini", "__MACOSX", "@eaDir",
        "$RECYCLE.BIN", "lost+found", "Icon\r", "a.tif.aux.xml", "a.tif.ovr", "a.TFW", "a.prj"}) {
    EXPECT_TRUE(is_clutter(name)) << name;
  }
  for (const char* name : {"a.jpg", "cat", "_._", "Thumbs", "thumbs.db.jpg", "MACOSX", "icon",
                           "a@eaDir", "\xFF.jpg", "a.xml", "ovr", "a.ovr.tif"}) {
    EXPECT_FALSE(is_clutter(name)) << name;
  }
}

}  // namespace
}  // namespace retina
