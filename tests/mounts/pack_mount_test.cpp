// coco-pack where file systems lack abilities, fill up, tear, lie or vanish.
#include <gmock/gmock.h>

#include <filesystem>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "shared/shard/manifest.h"
#include "tests/mounts/pack_fixture.h"

namespace retina {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class PackMount : public PackFixture {
 protected:
  // The same bytes as on a good disk, for the price of one warning.
  void expect_one_warning(const std::string& rule, const std::string& warning,
                          const std::vector<std::string>& more = {}) {
    const ProcessResult result = pack(rule, 0, more);
    EXPECT_EQ(count_of(warning, result.err), 1) << result.err;
    EXPECT_EQ(count_of("warning:", result.err), calm_warnings_ + 1) << result.err;
    EXPECT_EQ(folder_content(set()), calm_);
  }
};

TEST_F(PackMount, WithoutFolderSyncCostsOneWarning) {
  RETINA_FAULTS_OR_SKIP();
  for (const std::string code : {"EINVAL", "ENOTSUP", "ENOSYS"}) {
    expect_one_warning("fsync-folder=" + code, "cannot sync folders");
    fs::remove_all(set());
  }
}

TEST_F(PackMount, WithoutAnySyncCostsOneWarningForFilesAndOneForFolders) {
  RETINA_FAULTS_OR_SKIP();
  const ProcessResult result = pack("fsync=ENOSYS; fsync-folder=ENOSYS");
  EXPECT_EQ(count_of("cannot sync", result.err), 2) << result.err;
  EXPECT_EQ(folder_content(set()), calm_);
}

TEST_F(PackMount, WithoutLocksCostsOneWarning) {
  RETINA_FAULTS_OR_SKIP();
  for (const std::string code : {"ENOTSUP", "ENOLCK", "ENOSYS"}) {
    expect_one_warning("lock=" + code, "has no locks");
    fs::remove_all(set());
  }
}

// Both made the folder, one was faster with the lock.
TEST_F(PackMount, TheSlowerOfTwoPackersLeavesTheFolderOfTheOther) {
  RETINA_FAULTS_OR_SKIP();
  const ProcessResult slower = pack("lock=EAGAIN path=" + set(), 78);
  EXPECT_THAT(slower.err, HasSubstr("another process is writing here"));
  EXPECT_TRUE(path_exists(set() + "/.lock"));
}

TEST_F(PackMount, WithoutMemoryMapsIsPackedThroughALocalDisk) {
  RETINA_FAULTS_OR_SKIP();
  expect_one_warning("mmap=ENODEV path=" + set(), "cannot map files into memory");
  fs::remove_all(set());
  make_folder(folder_ / "local");
  const ProcessResult result =
      pack("mmap=ENODEV path=" + set(), 0, {"--scratch", folder_ / "local"});
  EXPECT_EQ(count_of("warning:", result.err), calm_warnings_) << result.err;
  EXPECT_EQ(folder_content(set()), calm_);
  EXPECT_EQ(file_count(folder_ / "local"), 0U);
}

TEST_F(PackMount, ShardsThatCannotBeMappedAreReadFromTheLocalDisk) {
  RETINA_FAULTS_OR_SKIP();
  ASSERT_EQ(run_process(command()).exit_code, 0);
  make_folder(folder_ / "local");
  const ProcessResult result =
      run_process(faulty("mmap=ENODEV path=" + set() + "; open=EROFS path=" + set(),
                         {"coco-pack", "--verify", set(), "--scratch", folder_ / "local"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(count_of("cannot map files into memory", result.err), 1) << result.err;
  EXPECT_THAT(result.out, HasSubstr("intact, 40 images"));
  EXPECT_EQ(file_count(folder_ / "local"), 0U);

  const ProcessResult full = run_process(
      faulty("mmap=ENODEV path=" + set() + "; write=ENOSPC bytes=9000 path=" + (folder_ / "local"),
             {"coco-pack", "--verify", set(), "--scratch", folder_ / "local"}));
  EXPECT_EQ(full.exit_code, 74);
  EXPECT_THAT(full.err, HasSubstr("copying a shard here failed"));
  EXPECT_EQ(file_count(folder_ / "local"), 0U);
}

TEST_F(PackMount, InputsMayBeReadOnly) {
  RETINA_FAULTS_OR_SKIP();
  const std::string read_only = "open=EROFS path=" + (folder_ / "images") +
                                "; open=EROFS path=" + (folder_ / "annotations.json");
  pack(read_only);
  EXPECT_EQ(folder_content(set()), calm_);
  const auto files = folder_content(folder_ / "out");
  const std::string sealed = "open=EROFS path=" + set() + "; lock=ENOLCK path=" + set() +
                             "; rename=EROFS path=" + set() + "; unlink=EROFS path=" + set();
  const std::vector<std::vector<std::string>> readers = {
      {"coco-pack", "--verify", set()},
      {"coco-pack", "--inspect", set(), "--image", "id=4", "--draw", folder_ / "drawn.jpg"}};
  for (const auto& reader : readers) {
    const ProcessResult result = run_process(faulty(sealed, reader));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(count_of("warning:", result.err), 0) << result.err;
  }
  pack(sealed);  // finished: one line, nothing touched
  EXPECT_EQ(folder_content(folder_ / "out"), files);
}

TEST_F(PackMount, ScratchGivesTheSameBytesAndIsLeftEmpty) {
  RETINA_FAULTS_OR_SKIP();
  make_folder(folder_ / "local");
  const std::vector<std::string> scratch = {"--scratch", folder_ / "local"};
  // A process killed in its scratch folder leaves something: the next one takes it away.
  pack("write=kill path=" + (folder_ / "local") + " after=3", 128 + SIGKILL, scratch).err.clear();
  EXPECT_GT(file_count(folder_ / "local"), 0U);
  pack("read=count", 0, scratch);
  EXPECT_EQ(folder_content(set()), calm_);
  EXPECT_EQ(file_count(folder_ / "local"), 0U);
}

TEST_F(PackMount, ACopyThatReadsBackDifferentlyIsAnError) {
  RETINA_FAULTS_OR_SKIP();
  const std::vector<std::string> scratch = {"--scratch", folder_ / "local"};
  const ProcessResult result =
      pack("read=flip times=1 path=" + set() + "/.packing/shard-00001", 74, scratch);
  EXPECT_THAT(result.err, HasSubstr("reads back differently"));
  EXPECT_FALSE(path_exists(set() + "/manifest.json"));
  expect_that_packing_again_ends_well();
}

TEST_F(PackMount, TooLittleSpaceIsFoundBeforeTheWork) {
  RETINA_FAULTS_OR_SKIP();
  const ProcessResult output = pack("space=free bytes=1000 path=" + set(), 74);
  EXPECT_THAT(output.err, HasSubstr("too little free space (got 1000 B"));
  EXPECT_FALSE(path_exists(set()));
  make_folder(folder_ / "local");
  const ProcessResult scratch = pack("space=free bytes=2000 path=" + (folder_ / "local"), 74,
                                     {"--scratch", folder_ / "local"});
  EXPECT_THAT(scratch.err, HasSubstr("--scratch"));
  EXPECT_FALSE(path_exists(set()));
}

TEST_F(PackMount, ImagesThatVanishAre74AndCostNoFinishedShard) {
  RETINA_FAULTS_OR_SKIP();
  pack("write=ENOSPC bytes=150000 path=" + set(), 74);
  const auto shards = folder_content(set() + "/.packing");
  ASSERT_FALSE(shards.empty());
  const std::string images = folder_ / "images";
  for (const bool overwrite : {false, true}) {
    SCOPED_TRACE(cat("overwrite ", overwrite));
    pack(cat("read=vanish times=1 path=", images), 74,
         overwrite ? std::vector<std::string>{"--overwrite"} : std::vector<std::string>{});
    EXPECT_EQ(folder_content(set() + "/.packing"), shards);
    fs::remove_all(images);
    fs::rename(images + ".gone", images);
  }
  expect_that_packing_again_ends_well();
}

TEST_F(PackMount, AFaultWhileItPublishesIs74AndCompletedByTheNextRun) {
  RETINA_FAULTS_OR_SKIP();
  const std::string seen = folder_ / "seen";
  run_process(faulty("rename=count path=" + set(), command(), seen));
  const int renames = std::stoi(read_file(seen));
  fs::remove_all(set());
  for (int after = renames - 6; after < renames; ++after) {
    SCOPED_TRACE(cat("rename ", after, " of ", renames));
    pack(cat("rename=EIO times=1 after=", after, " path=", set()), 74);
    EXPECT_THAT(run_process(command()).out, HasSubstr("already finished"));
    EXPECT_EQ(folder_content(set()), calm_);
    fs::remove_all(set());
  }
}

TEST_F(PackMount, ShortWritesAndInterruptedCallsChangeNothing) {
  RETINA_FAULTS_OR_SKIP();
  pack(
      "write=EINTR every=3; read=EINTR every=3; fsync=EINTR every=2; fsync-folder=EINTR every=2; "
      "rename=EINTR every=2; open=EINTR every=2 path=" +
      set() + "/manifest.json");
  EXPECT_EQ(folder_content(set()), calm_);
  fs::remove_all(set());
  // LMDB takes a short write for a full disk, so it works elsewhere here.
  pack("write=short every=2 path=" + set(), 0, {"--scratch", folder_ / "local"});
  EXPECT_EQ(folder_content(set()), calm_);
}

TEST_F(PackMount, FoldersOnTwoFileSystemsAreBridgedByCopying) {
  RETINA_FAULTS_OR_SKIP();
  pack("rename-across=EXDEV");
  EXPECT_EQ(folder_content(set()), calm_);
}

TEST_F(PackMount, AnOutputThatVanishesIs74AndContinuesWhenItIsBack) {
  RETINA_FAULTS_OR_SKIP();
  pack("any=count path=" + set());
  const std::string seen = folder_ / "seen";
  fs::remove_all(set());
  run_process(faulty("any=count path=" + set(), command(), seen));
  const int calls = std::stoi(read_file(seen));
  fs::remove_all(set());
  for (const std::string effect : {"vanish", "unmount"}) {
    // After the first few calls (the folder itself, its lock, the journal) and before the last,
    // which remove what the journal has left behind the published set.
    for (int after = 6; after < calls * 4 / 5; after += calls / 9) {
      SCOPED_TRACE(cat(effect, " at call ", after, " of ", calls));
      pack(cat("any=", effect, " times=1 after=", after, " path=", set()), 74);
      EXPECT_FALSE(path_exists(set() + "/manifest.json"));
      fs::remove_all(set());
      fs::rename(set() + ".gone", set());
      expect_that_packing_again_ends_well();
      fs::remove_all(set());
    }
  }
}

}  // namespace
}  // namespace retina
