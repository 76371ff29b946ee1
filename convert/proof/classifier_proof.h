// The proof at the end of a classifier's conversion: the written file is opened again and compared
// with the training model, image by image.
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <vector>

#include "convert/proof/score_match.h"
#include "shared/image/image.h"
#include "shared/model/classifier.h"

namespace retina {

struct ClassifierProofInputs {
  const std::vector<Image>& images;
  c10::Device device = c10::kCPU;
};

// Runs both models on every image, one at a time, the training model on what the loader makes of it
// for an evaluation, and compares their scores. `model` is moved to the device and put into
// evaluation mode. Throws what LibTorch throws when the file cannot be opened.
ScoreMatch compare_models(const std::string& inference_file, Classifier& model,
                          const ClassifierProofInputs& inputs);

// Throws Error{kAnswerNo} when the scores of an image differ, or nothing was compared.
void require_equal(const ScoreMatch& result, const std::string& output);

}  // namespace retina
