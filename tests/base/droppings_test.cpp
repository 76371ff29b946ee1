#include "shared/base/droppings.h"

#include <gtest/gtest.h>

namespace retina {
namespace {

TEST(Droppings, AreKnownByTheirNames) {
  for (const char* name :
       {".", "..", "._a.jpg", ".DS_Store", ".ipynb_checkpoints", ".git", ".nfs000012", "Thumbs.db",
        "thumbs.db", "desktop.ini", "Desktop.ini", "__MACOSX", "@eaDir", "#recycle", "$RECYCLE.BIN",
        "System Volume Information", "lost+found", "Icon\r", "__pycache__"}) {
    EXPECT_TRUE(is_dropping(name)) << name;
  }
}

TEST(Droppings, AreNoNamesThatPeopleGive) {
  for (const char* name : {"a.jpg", "cat", "_._", "Thumbs", "thumbs.db.jpg", "MACOSX", "icon",
                           "a@eaDir", "\xFF.jpg"}) {
    EXPECT_FALSE(is_dropping(name)) << name;
  }
}

}  // namespace
}  // namespace retina
