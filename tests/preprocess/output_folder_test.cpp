// Whose files an output folder holds, and who works in it.
#include "preprocess/output_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "shared/base/file.h"
#include "tests/preprocess/small_coco.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(OutputFolder, OneThatWasMadeGoesAgainOnlyWhenNothingWasPutIntoIt) {
  const TestFolder folder;
  const std::string set = folder / "set";
  { const OutputFolder mine(set); }
  EXPECT_FALSE(path_exists(set));
  {
    const OutputFolder mine(set);
    make_folder(set + "/.packing");
  }
  EXPECT_TRUE(path_exists(set + "/.packing"));
}

TEST(OutputFolder, TheLoserOfARaceLeavesTheWinnersFolder) {
  const TestFolder folder;
  const std::string set = folder / "set";
  const OutputFolder winner(set);
  EXPECT_NE(refusal_of(ErrorKind::kConfig, [&] { const OutputFolder loser(set); }), "accepted");
  EXPECT_TRUE(path_exists(set + "/.lock"));
}

TEST(OutputFolder, FilesThatCocoPackDidNotWriteAreLeftAlone) {
  const TestFolder folder;
  const SmallCoco coco{.folder = folder.path(), .good_count = 3};
  coco.write();
  for (const char* name :
       {"index.bin", "quarantine.jsonl", "manifest.json", ".packing/options.json",
        ".packing/notes.txt", "shard-00000-of-00001.lmdb"}) {
    const std::string path = folder / "set/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    write_file_atomically(path, "{\"name\": \"my site\"}");
    const auto before = folder_content(folder / "set");
    for (const bool overwrite : {false, true}) {
      PackOptions options = coco.options("set");
      options.overwrite = overwrite;
      EXPECT_THAT(
          pack_refusal(options, ErrorKind::kConfig),
          AllOf(HasSubstr("which does not look like coco-pack's"), Not(HasSubstr("overwrite"))));
      EXPECT_EQ(folder_content(folder / "set"), before);
    }
    std::filesystem::remove_all(folder / "set");
  }
}

}  // namespace
}  // namespace retina
