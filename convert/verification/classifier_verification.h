// The proof at the end of a classifier's conversion: the written file is opened again and compared
// with the training model, image by image.
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <vector>

#include "convert/verification/score_match.h"
#include "shared/evaluation/predict/converted_model.h"
#include "shared/image/image.h"
#include "shared/model/classifier.h"

namespace retina {

struct ClassifierVerificationInputs {
  const std::vector<Image>& images;
  c10::Device device = c10::kCPU;
};

// Runs both models on every image, one at a time, the training model on what the loader makes of it
// for an evaluation, and compares their scores. `model` is moved to the device and put into
// evaluation mode.
ScoreMatch compare_models(ConvertedModel converted, Classifier& model,
                          const ClassifierVerificationInputs& inputs);

// Throws Error{kAnswerNo} when the scores of an image differ, or nothing was compared.
void require_equal(const ScoreMatch& result, const std::string& output);

// For rounded weights: throws Error{kAnswerNo} when more than a tenth of the images have another
// best class, or nothing was compared.
void require_alike(const ScoreMatch& result, const std::string& output);

}  // namespace retina
