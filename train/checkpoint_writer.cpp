#include "train/checkpoint_writer.h"

#include <utility>

#include "shared/base/log.h"

namespace retina {

CheckpointWriter::~CheckpointWriter() {
  try {
    finish();
  } catch (const std::exception& error) {
    log_warning("the last checkpoint was not written: ", error.what());
  }
}

void CheckpointWriter::start(std::string path, Checkpoint checkpoint,
                             std::function<void(std::uint64_t hash)> written) {
  finish();
  under_way_ = std::async(std::launch::async,
                          [path = std::move(path), content = std::move(checkpoint),
                           done = std::move(written)] { done(save_checkpoint(path, content)); });
}

void CheckpointWriter::finish() {
  if (under_way_.valid()) under_way_.get();
}

}  // namespace retina
