#include "shared/evaluation/script_model.h"

#include <torch/csrc/jit/serialization/import.h>

#include <utility>

#include "shared/base/error.h"
#include "shared/evaluation/script_operators.h"
#include "shared/evaluation/script_run.h"
#include "shared/evaluation/trained_network.h"

namespace retina {

ScriptModel::ScriptModel(const std::string& path, const std::string& device, bool trusted)
    : state_(std::make_unique<State>()) {
  state_->path = path;
  state_->header = read_inference_header(path);
  state_->device = at::Device(device);
  if (!trusted) check_inference_file(path);
  try {
    // Only checked tensors are copied to a device.
    state_->module = torch::jit::load(path, at::Device(at::kCPU));
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {  // a c10::Error, or an ErrorReport of the compiler
    const std::string text = error.what();
    throw Error(ErrorKind::kData,
                cat(path, ": TorchScript cannot load it (", text.substr(0, text.find('\n')), ")"),
                "convert the checkpoint again with this version's retina-convert");
  }
  if (!trusted) check_script(state_->module, path);
  state_->module.to(state_->device);
  state_->module.eval();
}

ScriptModel::~ScriptModel() = default;
ScriptModel::ScriptModel(ScriptModel&&) noexcept = default;
ScriptModel& ScriptModel::operator=(ScriptModel&&) noexcept = default;

const InferenceHeader& ScriptModel::header() const {
  return state_->header;
}

void ScriptModel::check_task(Task wanted) const {
  check_model_task(state_->header.task, wanted, state_->path);
}

void ScriptModel::set_thresholds(const ScriptThresholds& thresholds) {
  const auto set = [&](const char* name, const c10::IValue& value) {
    if (!state_->module.hasattr(name)) {
      throw Error(ErrorKind::kConfig, cat("the converted model has no attribute ", name),
                  "evaluate with the thresholds it was converted with");
    }
    state_->module.setattr(name, value);
  };
  if (thresholds.score) set("score_threshold", *thresholds.score);
  if (thresholds.nms) set("nms_threshold", *thresholds.nms);
  if (thresholds.max_detections) set("max_detections", *thresholds.max_detections);
}

}  // namespace retina
