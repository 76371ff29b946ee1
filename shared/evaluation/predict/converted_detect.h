// Detection with a converted model. Same contract as `detect` with a RetinaNet.
#pragma once

#include <vector>

#include "shared/evaluation/predict/converted_model.h"
#include "shared/evaluation/predict/detect.h"

namespace retina {

// Like `detect(RetinaNet&, ...)`: images of equal size may share a batch. `options.postprocess`
// is not used, `options.precision` must be kFp32. Throws kConfig for a classifier, kData when the
// model's answer does not have the form that onnx_file.h describes.
std::vector<Detection> detect(ConvertedModel& model, const ImageSource& source, Communicator& ranks,
                              const DetectOptions& options);

}  // namespace retina
