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

// Of all its tensors: about what its file will take.
double tensor_bytes(const Checkpoint& checkpoint);

class CheckpointWriter {
 public:
  // Files are written where they belong.
  CheckpointWriter() = default;
  // Files of the run in `output` are built below `scratch` (empty: as above). Throws kCannotCreate.
  CheckpointWriter(const std::string& scratch, const std::string& output);
  // Waits for the file under way; what goes wrong then is reported to no one.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Waits for the previous file, then begins this one. `written` is called on the thread with the
  // file's hash, after the file was published. Throws what the previous one threw; a folder that
  // can no longer be written is kIo.
  void start(std::string path, Checkpoint checkpoint,
             std::function<void(std::uint64_t hash)> written);

  // Whether a file is under way.
  bool is_writing() const;

  // Waits for the file under way. Throws what it threw.
  void finish();
  // The same, but what it threw becomes a warning.
  void settle();

 private:
  std::optional<Scratch> scratch_;
  std::future<void> under_way_;
};

}  // namespace retina
