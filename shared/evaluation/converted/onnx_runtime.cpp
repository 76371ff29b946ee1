// ONNX models, run on the CPU.
#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <utility>

#include "shared/base/error.h"
#include "shared/evaluation/converted/converted_runtime.h"
#include "shared/onnx/onnx_file.h"
#include "shared/onnx/onnx_session.h"

namespace retina {
namespace {

at::Tensor copied(const OnnxOutput& output) {
  return at::from_blob(const_cast<void*>(output.data), output.shape,
                       output.is_float ? at::kFloat : at::kLong)
      .clone();
}

class OnnxRuntime : public ConvertedRuntime {
 public:
  OnnxRuntime(std::string model, std::string path, bool postprocess)
      : model_(std::move(model)), path_(std::move(path)), postprocess_(postprocess) {}

  std::vector<at::Tensor> detections(const at::Tensor& images) override {
    std::vector<const char*> names = {"boxes", "scores"};
    if (postprocess_) names.insert(names.end(), {"labels", "counts"});
    const std::vector<OnnxOutput> outputs = run(images);
    std::vector<at::Tensor> tensors;
    for (const char* name : names) tensors.push_back(named(outputs, name));
    return tensors;
  }
  at::Tensor logits(const at::Tensor& images) override { return named(run(images), "logits"); }
  at::Tensor probabilities(const at::Tensor& images) override {
    return named(run(images), "probabilities");
  }

  at::Device device() const override { return at::kCPU; }

  void set_thresholds(const ConvertedThresholds& thresholds) override {
    if (thresholds.max_detections) {
      throw Error(ErrorKind::kConfig,
                  cat(path_, ": the number of detections of an ONNX model cannot be changed"),
                  "leave out --max-detections, or convert the checkpoint with it");
    }
    const auto set = [&](const char* name, const std::optional<double>& threshold) {
      if (!threshold) return;
      if (!set_onnx_number(model_, name, static_cast<float>(*threshold), path_)) {
        throw Error(ErrorKind::kConfig, cat(path_, ": has no ", name),
                    "evaluate a model that was converted with its postprocessing");
      }
      session_.reset();
    };
    set(kOnnxScoreThreshold, thresholds.score);
    set(kOnnxNmsThreshold, thresholds.nms);
  }

 private:
  // The session is opened when it is needed: thresholds that change before cost nothing.
  std::vector<OnnxOutput> run(const at::Tensor& images) {
    if (!session_) session_.emplace(model_, path_, at::get_num_threads());
    const at::Tensor planes = images.contiguous();
    return session_->run({.pixels = planes.const_data_ptr<std::uint8_t>(),
                          .count = planes.size(0),
                          .height = planes.size(2),
                          .width = planes.size(3)});
  }
  at::Tensor named(const std::vector<OnnxOutput>& outputs, const std::string& name) const {
    const auto found = std::find_if(outputs.begin(), outputs.end(), [&](const OnnxOutput& output) {
      return std::find(output.names.begin(), output.names.end(), name) != output.names.end();
    });
    if (found == outputs.end()) refuse_answer(path_, cat("has no ", name));
    return copied(*found);
  }

  std::string model_, path_;
  bool postprocess_;
  std::optional<OnnxSession> session_{};
};

}  // namespace

std::unique_ptr<ConvertedRuntime> open_onnx(std::string model, const std::string& path,
                                            const InferenceHeader& header, bool trusted) {
  if (!trusted) check_onnx_model(model, path);
  require_onnx_runtime(path);
  return std::make_unique<OnnxRuntime>(std::move(model), path, header.onnx->postprocess);
}

}  // namespace retina
