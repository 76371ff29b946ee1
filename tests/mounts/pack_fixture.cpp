#include "tests/mounts/pack_fixture.h"

#include <algorithm>
#include <filesystem>

#include "shared/base/file.h"

namespace retina {

namespace fs = std::filesystem;

PackFixture::PackFixture() {
  coco_.write();
  make_folder(folder_ / "out");
  const ProcessResult calm = run_process(command());
  EXPECT_EQ(calm.exit_code, 0) << calm.err;
  calm_ = folder_content(set());
  calm_warnings_ = count_of("warning:", calm.err);
  fs::remove_all(set());
}

std::vector<std::string> PackFixture::command(const std::vector<std::string>& more) const {
  std::vector<std::string> arguments = {
      "coco-pack", "--annotations",    folder_ / "annotations.json",
      "--images",  folder_ / "images", "--output",
      set(),       "--shard-size",     "64KiB"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

ProcessResult PackFixture::pack(const std::string& rules, int exit_code,
                                const std::vector<std::string>& more) const {
  const ProcessResult result = run_process(faulty(rules, command(more)));
  EXPECT_EQ(result.exit_code, exit_code) << rules << "\n" << result.err;
  if (exit_code != 0 && exit_code < 128) {
    EXPECT_EQ(count_of("error:", result.err), 1) << rules << "\n" << result.err;
  }
  return result;
}

void PackFixture::expect_that_packing_again_ends_well() const {
  const ProcessResult again = run_process(command());
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_EQ(folder_content(set()), calm_);
}

std::size_t PackFixture::file_count(const std::string& folder) {
  const fs::recursive_directory_iterator files(folder);
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

}  // namespace retina
