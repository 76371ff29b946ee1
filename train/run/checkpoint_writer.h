// Writes checkpoints on a thread of its own, one at a time, while training goes on. With a scratch
// folder each is built and verified there, then copied to the run's folder and compared.
#pragma once

#include <functional>
#include <future>
#include <optional>
#include <string>

#include "shared/base/output.h"
#include "shared/checkpoint/checkpoint.h"

namespace retina {

// Returns the bytes of all its tensors, about the size of its file.
double tensor_bytes(const Checkpoint& checkpoint);

class CheckpointWriter {
 public:
  // Writes files in place.
  CheckpointWriter() = default;
  // Builds the files of the run in `output` below `scratch` (empty: in place). Throws
  // kCannotCreate.
  CheckpointWriter(const std::string& scratch, const std::string& output);
  // Waits for the file under way; discards its errors.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Waits for the previous file, then begins this one. `written` is called on the thread with the
  // file's hash, after the file was published. Throws the error of the previous file; a folder that
  // can no longer be written is kIo.
  void start(std::string path, Checkpoint checkpoint,
             std::function<void(std::uint64_t hash)> written);

  // Returns whether a file is under way.
  bool is_writing() const;

  // Waits for the file under way. Throws its error.
  void finish();
  // Does the same, but turns an error into a warning.
  void settle();

 private:
  std::optional<Scratch> scratch_;
  std::future<void> under_way_;
};

}  // namespace retina
