// A small data set, its calm packing, and coco-pack on file systems that misbehave.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/preprocess/small_coco.h"
#include "tests/support/child_process.h"
#include "tests/support/faults/faulty.h"
#include "tests/support/test_folder.h"

namespace retina {

class PackFixture : public testing::Test {
 protected:
  PackFixture();

  std::string set() const { return folder_ / "out/set"; }
  // coco-pack into set(), in shards of 64 KiB.
  std::vector<std::string> command(const std::vector<std::string>& more = {}) const;

  // Runs it with faults; expects this exit code and one error for one that is not 0.
  ProcessResult pack(const std::string& rules, int exit_code = 0,
                     const std::vector<std::string>& more = {}) const;

  // Packs without faults what an earlier run left: the bytes of the calm packing, and nothing else.
  void expect_that_packing_again_ends_well() const;

  // Files below a folder, hidden ones and folders too.
  static std::size_t file_count(const std::string& folder);

  TestFolder folder_;
  SmallCoco coco_{.folder = folder_.path(), .good_count = 40, .with_bad_images = true};
  std::map<std::string, std::string> calm_;  // folder_content of a calm packing
  int calm_warnings_ = 0;                    // what the data themselves give rise to
};

}  // namespace retina
