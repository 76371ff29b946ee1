// Detection with a converted model: a TorchScript file that takes u8 images and does everything
// itself. Same contract as `detect`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shared/coco/instances.h"
#include "shared/evaluation/detect.h"

namespace retina {

// A loaded converted model (retina-convert's output).
class ScriptModel {
 public:
  // `device`: "cpu" or "cuda". Throws kNoInput, kData (no TorchScript, or not one of ours).
  ScriptModel(const std::string& path, const std::string& device);
  ~ScriptModel();
  ScriptModel(ScriptModel&&) noexcept;
  ScriptModel& operator=(ScriptModel&&) noexcept;

  // In label order.
  const std::vector<Category>& categories() const;
  const std::string& config_json() const;

  struct State;
  State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

// Like `detect(RetinaNetImpl&, ...)`: images of equal size may share a batch.
std::vector<Detection> detect(ScriptModel& model, const ShardSet& shards, Communicator& ranks,
                              const DetectOptions& options);

}  // namespace retina
