#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/max.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>

#include <algorithm>
#include <limits>

#include "convert/verification/verification.h"
#include "convert/verification/verification_images.h"
#include "shared/base/error.h"
#include "shared/image/resize.h"
#include "shared/ops/box_coder.h"

namespace retina {
namespace {

constexpr std::int64_t kMinCandidates = 100;
constexpr double kBorderlineShare = 0.25;

std::vector<ScoredBox> to_list(const at::Tensor& boxes, const at::Tensor& scores,
                               const at::Tensor& labels) {
  const at::Tensor b = boxes.cpu().contiguous(), s = scores.cpu().contiguous(),
                   l = labels.cpu().contiguous();
  std::vector<ScoredBox> list(static_cast<std::size_t>(s.size(0)));
  for (std::size_t i = 0; i < list.size(); ++i) {
    std::copy_n(b.const_data_ptr<float>() + 4 * i, 4, list[i].box.begin());
    list[i].score = s.const_data_ptr<float>()[i];
    list[i].label = l.const_data_ptr<std::int64_t>()[i];
  }
  return list;
}

// Returns the training model's detections, as an evaluation finds them: the loader's resize, the
// network, postprocess, boxes back to the input's pixels. Lowers `options.score_threshold` as
// compare_models says.
std::vector<ScoredBox> run_reference(RetinaNet& model, const Image& image, c10::Device device,
                                     PostprocessOptions& options) {
  const ModelConfig& config = model.config();
  const auto [pixels, size, pad] = network_input(image, config);
  const HeadOutputs outputs = model.forward(pixels.to(device));
  const at::Tensor scores = at::sigmoid(all_levels(outputs.logits)).flatten();
  const auto wanted = std::min(kMinCandidates, scores.size(0));
  const at::Tensor best = std::get<0>(scores.topk(wanted));
  // A hair below the last candidate, so that rounding moves no candidate across.
  options.score_threshold =
      std::min(options.score_threshold, best[wanted - 1].item<double>() * 0.999);

  const ImageDetections found = postprocess(outputs, config, pad, {size}, options)[0];
  auto list = to_list(found.boxes, found.scores, found.labels);
  for (ScoredBox& entry : list) {
    entry.box = resize_box(entry.box, {.width = size.width, .height = size.height},
                           {.width = image.width, .height = image.height});
  }
  return list;
}

std::vector<ScoredBox> run_converted(ConvertedModel& converted, const Image& image) {
  const std::vector<at::Tensor> outputs = converted.detections(planes_of(image));
  const std::int64_t count = outputs.at(3)[0].item<std::int64_t>();
  const auto rows = [&](std::size_t output) { return outputs.at(output)[0].narrow(0, 0, count); };
  return to_list(rows(0), rows(1), rows(2));
}

struct Anchors {
  at::Tensor boxes, scores;  // [A, 4] px of the image, [A, K]
};

Anchors reference_anchors(RetinaNet& model, const Image& image, c10::Device device) {
  const ModelConfig& config = model.config();
  const auto [pixels, size, padded] = network_input(image, config);
  const HeadOutputs outputs = model.forward(pixels.to(device));
  const at::Tensor deltas = all_levels(outputs.deltas)[0];
  const at::Tensor boxes =
      clip_boxes(decode_boxes(deltas, anchors_for(config, padded, deltas.options())), size);
  const float across = static_cast<float>(image.width) / static_cast<float>(size.width);
  const float down = static_cast<float>(image.height) / static_cast<float>(size.height);
  return {.boxes = (boxes * at::tensor({across, down, across, down}, deltas.options())).cpu(),
          .scores = at::sigmoid(all_levels(outputs.logits)[0]).cpu()};
}

// Returns the largest element, or infinity where one is not finite.
double largest(const at::Tensor& differences) {
  const double found = differences.max().item<double>();  // NaN where an element is NaN
  return found <= std::numeric_limits<double>::max() ? found
                                                     : std::numeric_limits<double>::infinity();
}

}  // namespace

MatchResult compare_models(ConvertedModel converted, RetinaNet& model,
                           const VerificationInputs& inputs) {
  const at::NoGradGuard no_grad;
  model.to(inputs.device);
  model.set_training(false);
  struct Reference {
    std::vector<ScoredBox> found;
    double score_threshold;
  };
  std::vector<Reference> references;
  double lowest = inputs.postprocess.score_threshold;
  for (const Image& image : inputs.images) {
    PostprocessOptions options = inputs.postprocess;
    std::vector<ScoredBox> found = run_reference(model, image, inputs.device, options);
    references.push_back({std::move(found), options.score_threshold});
    lowest = std::min(lowest, options.score_threshold);
  }
  // Set once, since the model is compiled again. A lower score suppresses no higher one, so each
  // image's own threshold can be applied afterwards.
  converted.set_thresholds({.score = lowest});
  MatchResult total;
  for (std::size_t place = 0; place < references.size(); ++place) {
    const auto& [want, score_threshold] = references[place];
    std::vector<ScoredBox> got = run_converted(converted, inputs.images[place]);
    std::erase_if(got, [&](const ScoredBox& box) { return box.score <= score_threshold; });
    total.add(match_detections(want, got,
                               {.score_threshold = score_threshold,
                                .nms_threshold = inputs.postprocess.nms_threshold,
                                .max_detections = inputs.postprocess.max_detections}));
  }
  return total;
}

MatchResult compare_anchors(ConvertedModel converted, RetinaNet& model,
                            const VerificationInputs& inputs) {
  const at::NoGradGuard no_grad;
  model.to(inputs.device);
  model.set_training(false);
  MatchResult total;
  for (const Image& image : inputs.images) {
    const Anchors want = reference_anchors(model, image, inputs.device);
    const std::vector<at::Tensor> got = converted.detections(planes_of(image));
    if (got.at(0)[0].sizes() != want.boxes.sizes() || got.at(1)[0].sizes() != want.scores.sizes()) {
      fail_verification(converted.path(), "it has another number of anchors");
    }
    const at::Tensor sides = (want.boxes.slice(1, 2) - want.boxes.slice(1, 0, 2)).amax(1, true);
    const at::Tensor unit = (sides / 100).clamp_min(1);
    total.paired_count += want.boxes.size(0);
    total.largest_box_px =
        std::max(total.largest_box_px, largest((got[0][0] - want.boxes).abs() / unit));
    total.largest_score = std::max(total.largest_score, largest((got[1][0] - want.scores).abs()));
  }
  return total;
}

void fail_verification(const std::string& output, const std::string& problem,
                       const std::string& hint) {
  throw Error(ErrorKind::kAnswerNo,
              cat(output, ": the verification failed, nothing was written: ", problem), hint);
}

void require_equal(const MatchResult& result, const std::string& output) {
  const auto fail = [&](const std::string& problem) { fail_verification(output, problem); };
  if (result.unexplained_count > 0) {
    fail(cat(result.unexplained_count, " detections differ; ", result.first_unexplained));
  }
  if (!(result.largest_box_px <= kBoxTolerancePx)) {
    fail(cat("boxes differ (got ", result.largest_box_px, " px, want at most ", kBoxTolerancePx,
             ")"));
  }
  if (!(result.largest_score <= kScoreTolerance)) {
    fail(cat("scores differ (got ", result.largest_score, ", want at most ", kScoreTolerance, ")"));
  }
  const double share = kBorderlineShare * static_cast<double>(result.paired_count);
  if (static_cast<double>(result.borderline_count) > std::max(2.0, share)) {
    fail_verification(
        output,
        cat(result.borderline_count, " detections differ, ", result.paired_count,
            " are equal: scores or overlaps lie so close together that rounding decides"),
        "train for longer, give --data, whose images have objects, or an --onnx-static that is not "
        "as thin");
  }
  if (result.paired_count == 0) fail("the images gave no detection to compare");
}

void require_alike(const MatchResult& result, const std::string& output) {
  const std::int64_t others = result.borderline_count + result.unexplained_count;
  if (result.paired_count == 0 || others > 2 * result.paired_count) {
    fail_verification(output, cat("with rounded weights ", result.paired_count,
                                  " detections match, ", others, " appear in only one model"));
  }
}

void require_alike_anchors(const MatchResult& result, const std::string& output) {
  if (result.largest_score <= 0.5) return;
  fail_verification(output, cat("with rounded weights a score is off by ", result.largest_score));
}

}  // namespace retina
