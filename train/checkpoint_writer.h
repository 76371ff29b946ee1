// Writes checkpoints on a thread of its own, one at a time, while training goes on.
#pragma once

#include <functional>
#include <future>
#include <string>

#include "shared/checkpoint/checkpoint.h"

namespace retina {

class CheckpointWriter {
 public:
  CheckpointWriter() = default;
  // Waits for the file under way; what went wrong then has no one to tell.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Waits for the previous file, then begins this one. `written` is called on the thread with the
  // file's hash, after the file was published. Throws what the previous one threw.
  void start(std::string path, Checkpoint checkpoint,
             std::function<void(std::uint64_t hash)> written);

  // Waits for the file under way. Throws what it threw.
  void finish();

 private:
  std::future<void> under_way_;
};

}  // namespace retina
