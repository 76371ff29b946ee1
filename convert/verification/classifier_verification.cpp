#include "convert/verification/classifier_verification.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/softmax.h>

#include "convert/verification/verification_failure.h"
#include "convert/verification/verification_images.h"
#include "shared/base/cat.h"
#include "shared/data/evaluation_plan.h"
#include "shared/data/sample_source.h"

namespace retina {
namespace {

// Of the only image of `scores` [1, K].
std::vector<float> row_of(const at::Tensor& scores) {
  const at::Tensor row = scores.cpu().to(at::kFloat).contiguous().flatten();
  return {row.const_data_ptr<float>(), row.const_data_ptr<float>() + row.numel()};
}

// The loader's way: [1, 3, S, S] f32.
at::Tensor loaded(const Image& image, const ModelConfig& config) {
  const std::vector<IndexEntry> index = {{.width = image.width, .height = image.height}};
  const BatchRequest request = plan_evaluation(index, {.framing = Framing::kSquare,
                                                       .min_side_px = config.min_side_px,
                                                       .max_side_px = config.max_side_px})
                                   .front();
  const at::Tensor pixels =
      at::empty({1, 3, request.padded_height_px, request.padded_width_px}, at::kFloat);
  put_pixels(image, request,
             sized_sample(request, 0, {.width = image.width, .height = image.height}),
             config.normalisation(), pixels.mutable_data_ptr<float>());
  return pixels;
}

ClassScoreRow scores_of_reference(const Classifier& model, const Image& image, c10::Device device) {
  const at::Tensor logits = model.forward(loaded(image, model.config()).to(device));
  return {.logits = row_of(logits), .probabilities = row_of(at::softmax(logits, 1))};
}

ClassScoreRow scores_of_converted(ConvertedModel& converted, const Image& image) {
  const at::Tensor pixels = planes_of(image);
  return {.logits = row_of(converted.logits(pixels)),
          .probabilities = row_of(converted.probabilities(pixels))};
}

}  // namespace

ScoreMatch compare_models(ConvertedModel converted, Classifier& model,
                          const ClassifierVerificationInputs& inputs) {
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
