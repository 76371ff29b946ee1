#include <ATen/core/grad_mode.h>
#include <ATen/ops/softmax.h>

#include <algorithm>
#include <cmath>

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

// Returns the largest difference, infinite where a number is not finite.
double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  RETINA_CHECK(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(double{a[i]} - double{b[i]});
    if (!std::isfinite(difference)) return HUGE_VAL;
    largest = std::max(largest, difference);
  }
  return largest;
}

std::size_t best_of(const std::vector<float>& scores) {
  return static_cast<std::size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
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

void ScoreMatch::add(const ClassScoreRow& want, const ClassScoreRow& got) {
  ++image_count;
  const double probability = largest_difference(want.probabilities, got.probabilities);
  double scale = 1;
  for (const float logit : want.logits) scale = std::max(scale, std::abs(double{logit}));
  const double logit = largest_difference(want.logits, got.logits) / scale;
  largest_probability = std::max(largest_probability, probability);
  largest_logit = std::max(largest_logit, logit);
  const std::size_t best = best_of(want.probabilities), other = best_of(got.probabilities);
  if (best == other) ++same_best_count;
  const double lead = double{want.probabilities[best]} - double{want.probabilities[other]};
  std::string problem;
  if (!(probability <= kProbabilityTolerance)) {
    problem = cat("probabilities differ by ", probability);
  } else if (!(logit <= kLogitTolerance)) {
    problem = cat("logits differ by ", logit, " of the largest one");
  } else if (!(lead <= kProbabilityTolerance)) {
    problem = cat("its best class is ", other, " (want ", best, ")");
  }
  if (!problem.empty() && unequal_count++ == 0) first_unequal = problem;
}

ScoreMatch compare_models(ConvertedModel converted, Classifier& model,
                          const VerificationInputs& inputs) {
  const at::NoGradGuard no_grad;
  model.to(inputs.device);
  model.set_training(false);
  ScoreMatch total;
  for (const Image& image : inputs.images) {
    total.add(scores_of_reference(model, image, inputs.device),
              scores_of_converted(converted, image));
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
