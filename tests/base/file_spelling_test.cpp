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

TEST(FileSpelling, APlainNameHasNoOther) {
  EXPECT_THAT(other_spellings("a/b 1.jpg", "images"), IsEmpty());
  EXPECT_THAT(other_spellings("100%.jpg", "images"), IsEmpty());
  EXPECT_THAT(other_spellings("a%00.jpg", "images"), IsEmpty());
  EXPECT_THAT(other_spellings("", "images"), Contains(".jpg"));
}

TEST(FileSpelling, BackslashesAndEscapesAreUndone) {
  EXPECT_THAT(other_spellings("sub\\a.jpg", "images"), ElementsAre("sub/a.jpg"));
  EXPECT_THAT(other_spellings("a%20b%2Fc.jpg", "images"), ElementsAre("a b/c.jpg"));
  EXPECT_THAT(other_spellings("s\\a%20b.jpg", "images"), ElementsAre("s/a%20b.jpg", "s/a b.jpg"));
}

TEST(FileSpelling, AccentsHaveTwoForms) {
  EXPECT_THAT(other_spellings(kComposed, "images"), ElementsAre(kDecomposed));
  EXPECT_THAT(other_spellings(kDecomposed, "images"), ElementsAre(kComposed));
  EXPECT_THAT(other_spellings("caf\xE9.jpg", "images"), IsEmpty()) << "not UTF-8";
}

TEST(FileSpelling, WhatLeadsToTheFoldersOwnNameIsDropped) {
  EXPECT_THAT(other_spellings("images/a.jpg", "images"), ElementsAre("a.jpg"));
  EXPECT_THAT(other_spellings("/old/images/sub/a.jpg", "images"), ElementsAre("sub/a.jpg"));
  EXPECT_THAT(other_spellings("../images/a.jpg", "images"), ElementsAre("a.jpg"));
  EXPECT_THAT(other_spellings("C:\\images\\a.jpg", "images"),
              ElementsAre("C:/images/a.jpg", "a.jpg"));
  EXPECT_THAT(other_spellings("images/x/images/a.jpg", "images"),
              ElementsAre("x/images/a.jpg", "a.jpg"));
  EXPECT_THAT(other_spellings("myimages/a.jpg", "images"), IsEmpty());
}

TEST(FileSpelling, ANameWithoutEndingGetsThoseOfImages) {
  EXPECT_THAT(other_spellings("d.1/a", "images"), Contains("d.1/a.jpg"));
  EXPECT_THAT(other_spellings("images/a", "images"), Contains("a.png"));
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
       {".", "..", "._a.jpg", ".DS_Store", ".ipynb_checkpoints", ".git", ".nfs000012", "Thumbs.db",
        "thumbs.db", "desktop.ini", "Desktop.ini", "__MACOSX", "@eaDir", "#recycle", "$RECYCLE.BIN",
        "System Volume Information", "lost+found", "Icon\r", "__pycache__"}) {
    EXPECT_TRUE(is_dropping(name)) << name;
  }
}

TEST(Droppings, AreWhatGisProgramsLeaveBesideImages) {
  for (const char* name :
       {"a.tif.aux.xml", "a.tif.ovr", "a.wld", "a.TFW", "a.jgw", "a.pgw", "a.prj"}) {
    EXPECT_TRUE(is_dropping(name)) << name;
  }
}

TEST(Droppings, AreNoNamesThatPeopleGive) {
  for (const char* name : {"a.jpg", "cat", "_._", "Thumbs", "thumbs.db.jpg", "MACOSX", "icon",
                           "a@eaDir", "\xFF.jpg", "a.xml", "ovr", "a.ovr.tif"}) {
    EXPECT_FALSE(is_dropping(name)) << name;
  }
}

}  // namespace
}  // namespace retina
