// A small job for end-to-end tests: a dozen rendered images, packed, and the commands that train
// on them: a RetinaNet on ResNet-18 in seconds, or, for what any training does, cifar-cnn in a
// tenth of that.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/task.h"
#include "tests/support/test_folder.h"

namespace retina {

// retina-train on `shards` into `run` with one compute thread, `steps` steps in all.
std::vector<std::string> small_train_command(const std::string& shards, const std::string& run,
                                             int steps, const std::vector<std::string>& more = {},
                                             Task task = Task::kDetection);

// Replaces what follows `option`, which `command` has.
void set_value(std::vector<std::string>& command, const std::string& option,
               const std::string& value);

class Job {
 public:
  // Renders and packs train and val. Fails the test when coco-pack fails. Two steps are an epoch.
  explicit Job(Task task = Task::kDetection);

  const TestFolder& folder() const { return folder_; }
  std::string operator/(const std::string& name) const { return folder_ / name; }
  std::string train_shards() const { return folder_ / "shards/train"; }
  std::string val_shards() const { return folder_ / "shards/val"; }

  // coco-pack of "train" or "val".
  std::vector<std::string> pack_command(const std::string& split, const std::string& output,
                                        const std::vector<std::string>& more = {}) const;
  // small_train_command on the rendered images.
  std::vector<std::string> train_command(const std::string& run, int steps,
                                         const std::vector<std::string>& more = {}) const;

 private:
  Task task_;
  TestFolder folder_;
};

// A figure of the first step in metrics.jsonl of `run`.
double first_step(const std::string& run, const char* metric);

// Steps that metrics.jsonl of `run` has so far.
std::int64_t steps_logged(const std::string& run);

// The newest checkpoint by checkpoints.json; "" when there is none.
std::string last_checkpoint(const std::string& run);

}  // namespace retina
