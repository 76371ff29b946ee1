// A small job for end-to-end tests: a dozen rendered pictures, packed, and the commands that train
// a ResNet-18 on them in seconds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/test_folder.h"

namespace retina {

// retina-train on `shards` into `run` with one compute thread, 4 images a step, `steps` in all.
std::vector<std::string> small_train_command(const std::string& shards, const std::string& run,
                                             int steps, const std::vector<std::string>& more = {});

class Job {
 public:
  // Renders and packs train and val. Fails the test when coco-pack fails.
  Job();

  const TestFolder& folder() const { return folder_; }
  std::string operator/(const std::string& name) const { return folder_ / name; }
  std::string train_shards() const { return folder_ / "shards/train"; }
  std::string val_shards() const { return folder_ / "shards/val"; }

  // small_train_command on the rendered pictures.
  std::vector<std::string> train_command(const std::string& run, int steps,
                                         const std::vector<std::string>& more = {}) const;

 private:
  TestFolder folder_;
};

// A figure of the first step in metrics.jsonl of `run`.
double first_step(const std::string& run, const char* figure);

// Steps that metrics.jsonl of `run` has so far.
std::int64_t steps_logged(const std::string& run);

// The newest checkpoint by checkpoints.json; "" when there is none.
std::string last_checkpoint(const std::string& run);

}  // namespace retina
