// A small job for end-to-end tests: a dozen rendered pictures, packed, and the commands that train
// a ResNet-18 on them in seconds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/test_folder.h"

namespace retina {

class Job {
 public:
  // Renders and packs train and val. Fails the test when coco-pack fails.
  Job();

  const TestFolder& folder() const { return folder_; }
  std::string operator/(const std::string& name) const { return folder_ / name; }
  std::string train_shards() const { return folder_ / "shards/train"; }
  std::string val_shards() const { return folder_ / "shards/val"; }

  // retina-train into `run` with one compute thread, 4 images a step, `steps` in all.
  std::vector<std::string> train_command(const std::string& run, int steps,
                                         const std::vector<std::string>& more = {}) const;

 private:
  TestFolder folder_;
};

// Steps that metrics.jsonl of `run` has so far.
std::int64_t steps_logged(const std::string& run);

// The newest checkpoint by checkpoints.json; "" when there is none.
std::string last_checkpoint(const std::string& run);

}  // namespace retina
