// Writing a converted model: the file gets its name only after the proof on what was written.
#pragma once

#include <string>
#include <vector>

#include "convert/conversion.h"
#include "convert/options.h"
#include "shared/image/image.h"
#include "shared/onnx/inference_header.h"

namespace retina {

// Writes options.output and proves it on `images`, by OpenVINO on the CPU. Of rounded weights the
// f32 graph is proven first, in memory; then what rounding does to it is told: of f16 how much the
// answers differ, of int8 the accuracy on options.verification_data before and after. Returns the
// proof's words. Throws as Conversion::prove, write_onnx_file and accuracy_on.
std::string publish_model(Conversion& conversion, const ConvertOptions& options,
                          const InferenceHeader& header, const std::vector<Image>& images);

}  // namespace retina
