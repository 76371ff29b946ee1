// A small job for end-to-end tests: a dozen rendered images, packed, and the commands that train
// on them: a RetinaNet on ResNet-18 in seconds, or, for what any training does, cifar-cnn in a
// tenth of that.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/json.h"
#include "shared/base/task.h"
#include "tests/support/test_folder.h"

namespace retina {

// A command line's words, which blanks separate.
std::vector<std::string> words(const std::string& line);
// `first`, then `second`.
std::vector<std::string> joined(std::vector<std::string> first,
                                const std::vector<std::string>& second);

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

// Runs the command alone, or under mpirun.
ProcessResult run_on(int ranks, const std::vector<std::string>& command);

// The lines of metrics.jsonl of `run` that have `key`: "step_ms" of steps, "validation".
std::vector<JsonFile> metric_lines(const std::string& run, const char* key);
// The text of the last line that has a validation.
std::string last_validation_line(const std::string& run);
// A figure of the first step.
double first_step(const std::string& run, const char* metric);

// Steps that metrics.jsonl of `run` has so far.
std::int64_t steps_logged(const std::string& run);

// How often `part` is in `text`.
std::size_t occurrences(const std::string& part, const std::string& text);

// The newest checkpoint by checkpoints.json; "" when there is none.
std::string last_checkpoint(const std::string& run);

}  // namespace retina
