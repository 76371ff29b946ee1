// TorchScript archives, run by LibTorch.
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include <utility>

#include "shared/base/error.h"
#include "shared/base/library_words.h"
#include "shared/evaluation/converted/converted_runtime.h"
#include "shared/evaluation/converted/script_operators.h"

namespace retina {
namespace {

class ScriptRuntime : public ConvertedRuntime {
 public:
  ScriptRuntime(std::string path, torch::jit::Module module, at::Device device)
      : path_(std::move(path)), module_(std::move(module)), device_(device) {
    module_.to(device_);
    module_.eval();
  }

  std::vector<at::Tensor> detections(const at::Tensor& images) override {
    const c10::IValue value = answer("forward", images);
    if (!value.isTuple()) refuse_answer(path_, "is not a tuple");
    std::vector<at::Tensor> tensors;
    for (const c10::IValue& element : value.toTupleRef().elements()) {
      tensors.push_back(as_tensor(element));
    }
    return tensors;
  }

  at::Tensor logits(const at::Tensor& images) override {
    return as_tensor(answer("logits", images));
  }
  at::Tensor probabilities(const at::Tensor& images) override {
    return as_tensor(answer("forward", images));
  }

  at::Device device() const override { return device_; }

  void set_thresholds(const ConvertedThresholds& thresholds) override {
    const auto set = [&](const char* name, const c10::IValue& value) {
      if (!module_.hasattr(name)) {
        throw Error(ErrorKind::kConfig, cat(path_, ": has no attribute ", name),
                    "evaluate with the thresholds it was converted with");
      }
      module_.setattr(name, value);
    };
    if (thresholds.score) set("score_threshold", *thresholds.score);
    if (thresholds.nms) set("nms_threshold", *thresholds.nms);
    if (thresholds.max_detections) set("max_detections", *thresholds.max_detections);
  }

 private:
  c10::IValue answer(const std::string& method, const at::Tensor& images) {
    const auto found = module_.find_method(method);
    if (!found) {
      throw Error(ErrorKind::kData, cat(path_, ": has no method ", method),
                  "convert the checkpoint again with this version's retina-convert");
    }
    return (*found)({images});
  }
  at::Tensor as_tensor(const c10::IValue& value) const {
    if (!value.isTensor()) refuse_answer(path_, "is not a tensor");
    return value.toTensor();
  }

  std::string path_;
  torch::jit::Module module_;
  at::Device device_;
};

torch::jit::Module load_module(const std::string& path) {
  try {
    // Only checked tensors are copied to a device.
    return torch::jit::load(path, at::Device(at::kCPU));
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {  // a c10::Error, or an ErrorReport of the compiler
    throw Error(ErrorKind::kData,
                cat(path, ": TorchScript cannot load it (", library_reason(error.what()), ")"),
                "convert the checkpoint again with this version's retina-convert");
  }
}

}  // namespace

std::unique_ptr<ConvertedRuntime> open_script(const std::string& path, const std::string& device,
                                              bool trusted) {
  if (!trusted) check_inference_file(path);
  torch::jit::Module module = load_module(path);
  if (!trusted) check_script(module, path);
  return std::make_unique<ScriptRuntime>(path, std::move(module), at::Device(device));
}

}  // namespace retina
