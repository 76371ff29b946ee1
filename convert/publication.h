// Writing a converted model: the file gets its name only after the proof on what was written.
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <vector>

#include "convert/conversion.h"
#include "convert/options.h"
#include "shared/checkpoint/inference_file.h"
#include "shared/image/image.h"

namespace retina {

// Writes options.output as TorchScript and proves it on `images`, on `device`. Returns the proof's
// words. Throws as Conversion::prove and write_sealed.
std::string publish_script(Conversion& conversion, const ConvertOptions& options,
                           const InferenceHeader& header, c10::Device device,
                           const std::vector<Image>& images);

// The same as ONNX, by OpenVINO on the CPU. Of rounded weights (header.onnx) the f32 graph is
// proven first, in memory; then what rounding does to it is told: of f16 how much the answers
// differ, of int8 the accuracy on options.proof_data before and after. Throws as publish_script and
// accuracy_on.
std::string publish_onnx(Conversion& conversion, const ConvertOptions& options,
                         const InferenceHeader& header, const std::vector<Image>& images);

}  // namespace retina
