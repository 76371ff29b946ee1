#include "shared/checkpoint/run_folder.h"

#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/checkpoint/checkpoint.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;

class RunFolder : public testing::Test {
 protected:
  // The end of epoch `step`; the index knows it once `write_index` has been called.
  CheckpointEntry add(std::int64_t step, std::optional<double> ap) {
    Checkpoint checkpoint;
    checkpoint.model = {{"w", at::ones({64})}};
    checkpoint.trainer_json =
        ap ? cat(R"({"step":)", step, R"(,"ap":)", *ap, "}") : cat(R"({"step":)", step, "}");
    const std::string name = checkpoint_name({.step = step, .epoch = step, .epoch_end = true});
    const std::uint64_t seal = save_checkpoint(run_ + "/" + name, checkpoint);
    return {.file = name, .step = step, .ap = ap, .xxh3 = hex64(seal)};
  }
  void damage(const std::string& name) {
    std::string bytes = read_file(run_ + "/" + name);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    write_file_atomically(run_ + "/" + name, bytes);
  }
  // The name inside the run of what stands for it.
  std::string chosen() const {
    const std::string path = resolve_checkpoint(run_);
    EXPECT_THAT(path, testing::StartsWith(run_ + "/"));
    return path.substr(run_.size() + 1);
  }
  void expect_refused(ErrorKind kind, const std::string& text) const {
    EXPECT_THAT(refusal_of(kind, [&] { resolve_checkpoint(run_); }), HasSubstr(text));
  }

  RunFolder() { make_folder(run_); }
  const TestFolder folder_;
  const std::string run_ = folder_ / "run";
};

TEST_F(RunFolder, StandsForItsBestCheckpointOrItsLastOneWithoutValidation) {
  write_index(run_, {add(1, 0.1), add(2, 0.3), add(3, 0.3), add(4, 0.2)});
  EXPECT_EQ(chosen(), "checkpoint-02.pt");
  write_index(run_, {add(1, {}), add(2, {}), add(3, {}), add(4, {}), add(10, {})});
  EXPECT_EQ(chosen(), "checkpoint-10.pt");
}

TEST_F(RunFolder, IsKnownByItsFilesWhereTheBooksAreGone) {
  add(1, 0.1);
  add(2, 0.3);
  add(3, 0.2);
  EXPECT_EQ(chosen(), "checkpoint-02.pt");
  write_file_atomically(run_ + "/checkpoints.json", R"({"best": "checkpoint-03.pt"})");
  EXPECT_EQ(chosen(), "checkpoint-02.pt");
}

TEST_F(RunFolder, BooksOfOtherContentAreNotBelieved) {
  std::vector<CheckpointEntry> entries{add(1, 0.1), add(2, 0.3)};
  entries[0].ap = 0.9;
  entries[0].xxh3 = hex64(0);  // of another file of this name
  entries.push_back({.file = "checkpoint-03.pt", .step = 3, .ap = 0.95, .xxh3 = hex64(1)});
  write_index(run_, entries);
  EXPECT_EQ(chosen(), "checkpoint-02.pt");
}

TEST_F(RunFolder, ADamagedBestGivesWayToTheNextOne) {
  write_index(run_, {add(1, 0.1), add(2, 0.3), add(3, 0.2)});
  damage("checkpoint-02.pt");
  EXPECT_EQ(chosen(), "checkpoint-03.pt");
}

TEST_F(RunFolder, WithoutAWholeCheckpointIsBadData) {
  write_index(run_, {add(1, 0.1), add(2, {})});
  damage("checkpoint-01.pt");
  damage("checkpoint-02.pt");
  expect_refused(ErrorKind::kData, "no checkpoint of this run is intact");
}

// A link to nowhere is listed and cannot be read, as what its run removes in between.
TEST_F(RunFolder, ACheckpointThatVanishesMeanwhileIsNoneOfIts) {
  write_index(run_, {add(1, 0.1), add(2, 0.3)});
  std::filesystem::create_symlink(run_ + "/gone", run_ + "/checkpoint-03.pt");
  EXPECT_EQ(chosen(), "checkpoint-02.pt");
}

TEST_F(RunFolder, WithoutCheckpointsIsMissingInput) {
  write_file_atomically(run_ + "/model.pt", "x");
  expect_refused(ErrorKind::kNoInput, "a folder without checkpoints");
}

TEST_F(RunFolder, AFileStandsForItself) {
  add(1, 0.1);
  EXPECT_EQ(resolve_checkpoint(run_ + "/checkpoint-01.pt"), run_ + "/checkpoint-01.pt");
  EXPECT_EQ(resolve_checkpoint(folder_ / "missing.pt"), folder_ / "missing.pt");
  EXPECT_EQ(run_folder_of(folder_.path()), folder_ / "run") << "retina-run keeps the run there";
}

}  // namespace
}  // namespace retina
