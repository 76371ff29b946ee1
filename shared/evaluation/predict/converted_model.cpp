#include "shared/evaluation/predict/converted_model.h"

#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/evaluation/predict/trained_network.h"
#include "shared/onnx/onnx_check.h"
#include "shared/onnx/onnx_file.h"

namespace retina {

ConvertedModel::ConvertedModel(const std::string& path) : path_(path) {
  CheckedModel checked = read_onnx_model(path);
  header_ = std::move(checked.header);
  model_ = std::move(checked.bytes);
  require_onnx_runtime(path);
}

ConvertedModel::ConvertedModel(std::string model, const InferenceHeader& header,
                               const std::string& path)
    : path_(path), header_(header), model_(std::move(model)) {
  require_onnx_runtime(path);
}

void ConvertedModel::check_task(Task wanted) const {
  check_model_task(header_.task, wanted, path_);
}

void ConvertedModel::check_postprocess() const {
  if (header_.form.postprocess) return;
  throw Error(ErrorKind::kConfig,
              cat(path_, ": gives every anchor's box, without choice and suppression"),
              "evaluate a model that was converted without --no-postprocess");
}

void ConvertedModel::set_thresholds(const ConvertedThresholds& thresholds) {
  const auto set = [&](const char* name, const std::optional<double>& threshold) {
    if (!threshold) return;
    if (!set_onnx_number(model_, name, static_cast<float>(*threshold))) {
      throw Error(ErrorKind::kConfig, cat(path_, ": has no ", name),
                  "evaluate a model that was converted with its postprocessing");
    }
    session_.reset();
  };
  set(kOnnxScoreThreshold, thresholds.score);
  set(kOnnxNmsThreshold, thresholds.nms);
  if (thresholds.max_detections && *thresholds.max_detections > header_.max_detections) {
    throw Error(ErrorKind::kConfig,
                cat(path_, ": --max-detections ", *thresholds.max_detections,
                    ": the model gives at most ", header_.max_detections),
                "give fewer, or convert the checkpoint again with --max-detections");
  }
  max_detections_ = thresholds.max_detections;
}

std::vector<at::Tensor> ConvertedModel::detections(const at::Tensor& images) {
  const std::vector<OnnxOutput> outputs = run(images);
  std::vector<at::Tensor> tensors = {named(outputs, "boxes"), named(outputs, "scores")};
  if (!header_.form.postprocess) return tensors;
  at::Tensor counts = named(outputs, "counts");
  if (max_detections_) counts = counts.clamp_max(*max_detections_);  // best first
  tensors.push_back(named(outputs, "labels"));
  tensors.push_back(counts);
  return tensors;
}

at::Tensor ConvertedModel::logits(const at::Tensor& images) {
  return named(run(images), "logits");
}

at::Tensor ConvertedModel::probabilities(const at::Tensor& images) {
  return named(run(images), "probabilities");
}

std::vector<OnnxOutput> ConvertedModel::run(const at::Tensor& images) {
  if (!session_) session_ = open_onnx_session(model_, path_, at::get_num_threads());
  const at::Tensor planes = images.contiguous();
  return session_->run({.pixels = planes.const_data_ptr<std::uint8_t>(),
                        .count = planes.size(0),
                        .height = planes.size(2),
                        .width = planes.size(3)});
}

at::Tensor ConvertedModel::named(const std::vector<OnnxOutput>& outputs,
                                 const std::string& name) const {
  const auto found = std::find_if(outputs.begin(), outputs.end(), [&](const OnnxOutput& output) {
    return std::find(output.names.begin(), output.names.end(), name) != output.names.end();
  });
  if (found == outputs.end()) refuse_answer(path_, cat("has no ", name));
  return at::from_blob(const_cast<void*>(found->data), found->shape,
                       found->is_float ? at::kFloat : at::kLong)
      .clone();
}

void refuse_answer(const std::string& path, const std::string& problem) {
  throw Error(ErrorKind::kData, cat(path, ": its answer ", problem),
              "convert the checkpoint again with this version's retina-convert");
}

}  // namespace retina
