#include "shared/evaluation/converted/converted_model.h"

#include <utility>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/evaluation/converted/converted_runtime.h"
#include "shared/evaluation/trained_network.h"

namespace retina {

ConvertedModel::ConvertedModel(const std::string& path, const std::string& device, bool trusted)
    : path_(path),
      header_(read_inference_header(path)),
      runtime_(header_.onnx ? open_onnx(read_file(path), path, header_, trusted)
                            : open_script(path, device, trusted)) {}

ConvertedModel::ConvertedModel(std::string onnx_model, const InferenceHeader& header,
                               const std::string& path)
    : path_(path),
      header_(header),
      runtime_(open_onnx(std::move(onnx_model), path, header_, /*trusted=*/true)) {}

ConvertedModel::~ConvertedModel() = default;
ConvertedModel::ConvertedModel(ConvertedModel&&) noexcept = default;
ConvertedModel& ConvertedModel::operator=(ConvertedModel&&) noexcept = default;

void ConvertedModel::check_task(Task wanted) const {
  check_model_task(header_.task, wanted, path_);
}

void ConvertedModel::set_thresholds(const ConvertedThresholds& thresholds) {
  runtime_->set_thresholds(thresholds);
}

void refuse_answer(const std::string& path, const std::string& problem) {
  throw Error(ErrorKind::kData, cat(path, ": its answer ", problem),
              "convert the checkpoint again with this version's retina-convert");
}

}  // namespace retina
