#include "train/run/checkpoint_writer.h"

#include <chrono>
#include <utility>

#include "shared/base/file.h"
#include "shared/base/log.h"

namespace retina {
namespace {

// Writes a checkpoint to `path`, by way of `build_path` on the scratch folder; without one both are
// the same. Returns its hash.
std::uint64_t write_checkpoint(const std::string& path, const std::string& build_path,
                               const Checkpoint& checkpoint) {
  const std::uint64_t hash = save_checkpoint(build_path, checkpoint);
  if (build_path == path) return hash;
  deliver_file(build_path, path);
  remove_file(build_path);
  return hash;
}

}  // namespace

double tensor_bytes(const Checkpoint& checkpoint) {
  double bytes = 0;
  for (const auto* tensors : {&checkpoint.model, &checkpoint.optimizer}) {
    for (const NamedTensor& item : *tensors) bytes += static_cast<double>(item.tensor.nbytes());
  }
  return bytes;
}

CheckpointWriter::CheckpointWriter(const std::string& scratch, const std::string& output) {
  scratch_.emplace(scratch, output);
}

CheckpointWriter::~CheckpointWriter() {
  settle();
}

void CheckpointWriter::settle() {
  try {
    finish();
  } catch (const std::exception& error) {
    log_warning("the last checkpoint was not written: ", error.what());
  }
}

void CheckpointWriter::start(std::string path, Checkpoint checkpoint,
                             std::function<void(std::uint64_t hash)> written) {
  finish();
  const std::string build_path = scratch_ ? scratch_->build_path(path) : path;
  under_way_ =
      std::async(std::launch::async, [path = std::move(path), build_path,
                                      content = std::move(checkpoint), done = std::move(written)] {
        as_io_error([&] { done(write_checkpoint(path, build_path, content)); });
      });
}

bool CheckpointWriter::is_writing() const {
  return under_way_.valid() &&
         under_way_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
}

void CheckpointWriter::finish() {
  if (under_way_.valid()) under_way_.get();
}

}  // namespace retina
