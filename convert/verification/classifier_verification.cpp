#include <ATen/core/grad_mode.h>
#include <ATen/ops/softmax.h>

#include "convert/verification/verification.h"
#include "convert/verification/verification_images.h"
#include "shared/base/error.h"

namespace retina {
namespace {

// Returns the scores of the only image of `scores` [1, K].
std::vector<float> row_of(const at::Tensor& scores) {
  const at::Tensor row = scores.cpu().to(at::kFloat).contiguous().flatten();
  return {row.const_data_ptr<float>(), row.const_data_ptr<float>() + row.numel()};
}

ClassScoreRow scores_of_reference(const Classifier& model, const Image& image, c10::Device device) {
  const at::Tensor logits = model.forward(network_input(image, model.config()).pixels.to(device));
  return {.logits = row_of(logits), .probabilities = row_of(at::softmax(logits, 1))};
}

ClassScoreRow scores_of_converted(ConvertedModel& converted, const Image& image) {
  const at::Tensor pixels = planes_of(image);
  return {.logits = row_of(converted.logits(pixels)),
          .probabilities = row_of(converted.probabilities(pixels))};
}

}  // namespace

ScoreMatch compare_models(ConvertedModel converted, Classifier& model,
                          const VerificationInputs& inputs) {
  const at::NoGradGuard no_grad;
  model.to(inputs.device);
  model.set_training(false);
  ScoreMatch total;
  for (const Image& image : inputs.images) {
    total.add(match_scores(scores_of_reference(model, image, inputs.device),
                           scores_of_converted(converted, image)));
  }
  return total;
}

void require_equal(const ScoreMatch& result, const std::string& output) {
  if (result.unequal_count > 0) {
    fail_verification(output, cat("the scores of ", result.unequal_count, " of ",
                                  result.image_count, " images differ; ", result.first_unequal));
  }
  if (result.image_count == 0) fail_verification(output, "there was no image to compare on");
}

void require_alike(const ScoreMatch& result, const std::string& output) {
  if (result.image_count == 0) fail_verification(output, "there was no image to compare on");
  if (10 * (result.image_count - result.same_best_count) > result.image_count) {
    fail_verification(
        output, cat("with rounded weights ", result.image_count - result.same_best_count, " of ",
                    result.image_count, " images have another best class"));
  }
}

}  // namespace retina
