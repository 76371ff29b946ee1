#include "shared/model/postprocess.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/topk.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <string>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/ops/box_coder.h"
#include "shared/ops/nms.h"

namespace retina {
namespace {

constexpr std::size_t kCachedAnchors = 16;  // distinct padded shapes kept

struct CachedAnchors {
  AnchorRule rule;
  PixelSize padded;
  at::TensorOptions options;
  at::Tensor anchors;
};

// Candidates of one level for one image, before suppression.
struct Candidates {
  at::Tensor boxes, scores, labels;
};

// Returns the best of one image and level. logits [a, K], deltas [a, 4], anchors [a, 4].
Candidates best_of_level(const at::Tensor& logits, const at::Tensor& deltas,
                         const at::Tensor& anchors, const PostprocessOptions& options) {
  const std::int64_t class_count = logits.size(1);
  at::Tensor scores = at::sigmoid(logits).flatten();
  const at::Tensor passing = scores.gt(options.score_threshold).nonzero().squeeze(1);
  scores = scores.index_select(0, passing);
  const std::int64_t kept = std::min<std::int64_t>(options.candidates_per_level, passing.size(0));
  const auto [best_scores, order] = scores.topk(kept);
  const at::Tensor places = passing.index_select(0, order);
  const at::Tensor rows = places.div(class_count, "floor");
  return {.boxes = decode_boxes(deltas.index_select(0, rows), anchors.index_select(0, rows)),
          .scores = best_scores,
          .labels = places.remainder(class_count)};
}

// Returns those of all images, [N, k, 4] and [N, k]; the label is -1 for missing ones. logits [N,
// a, K], deltas [N, a, 4], anchors [a, 4] of one level.
Candidates best_of_levels(const at::Tensor& logits, const at::Tensor& deltas,
                          const at::Tensor& anchors, const PostprocessOptions& options) {
  const std::int64_t image_count = logits.size(0), class_count = logits.size(2);
  const at::Tensor all = at::sigmoid(logits).flatten(1);  // [N, a K]
  const std::int64_t kept = std::min<std::int64_t>(options.candidates_per_level, all.size(1));
  const auto [scores, places] = all.topk(kept, 1);
  const at::Tensor rows = places.div(class_count, "floor");  // [N, k]
  const at::Tensor own_deltas = deltas.gather(1, rows.unsqueeze(2).expand({image_count, kept, 4}));
  const at::Tensor own_anchors = anchors.index_select(0, rows.flatten());
  return {
      .boxes = decode_boxes(own_deltas.reshape({-1, 4}), own_anchors).view({image_count, kept, 4}),
      .scores = scores,
      .labels = places.remainder(class_count).masked_fill(scores.le(options.score_threshold), -1)};
}

// Returns width, height, width, height of each image, [N, 1, 4].
at::Tensor corner_limits(const std::vector<PixelSize>& sizes, const at::TensorOptions& options) {
  at::Tensor limits = at::empty({static_cast<std::int64_t>(sizes.size()), 1, 4}, at::kFloat);
  float* limit = limits.mutable_data_ptr<float>();
  for (const PixelSize& size : sizes) {
    for (const int side : {size.width, size.height, size.width, size.height}) {
      *limit++ = static_cast<float>(side);
    }
  }
  return limits.to(options);
}

}  // namespace

at::Tensor anchors_for(const ModelConfig& config, PixelSize padded, at::TensorOptions options) {
  static std::mutex mutex;
  // Never destroyed: at exit the device's allocator may be gone before the cache.
  static auto& cache = *new std::deque<CachedAnchors>();
  options = options.dtype(options.has_dtype() ? options.dtype() : caffe2::TypeMeta::Make<float>());
  const AnchorRule rule = config.anchors();
  const std::lock_guard lock(mutex);
  for (const CachedAnchors& entry : cache) {
    if (entry.padded == padded && entry.rule == rule && entry.options.dtype() == options.dtype() &&
        entry.options.device() == options.device()) {
      return entry.anchors;
    }
  }
  std::vector<AnchorBox> boxes = grid_anchors(rule, padded);
  const at::Tensor anchors =
      at::from_blob(boxes.data(), {static_cast<std::int64_t>(boxes.size()), 4}, at::kFloat)
          .to(options, /*non_blocking=*/false, /*copy=*/true);
  if (cache.size() == kCachedAnchors) cache.pop_front();
  cache.push_back({rule, padded, options, anchors});
  return anchors;
}

std::vector<ImageDetections> postprocess(const HeadOutputs& outputs, const ModelConfig& config,
                                         PixelSize padded,
                                         const std::vector<PixelSize>& image_sizes,
                                         const PostprocessOptions& options) {
  if (outputs.logits.at(0).is_cuda()) {
    return postprocess_together(outputs, config, padded, image_sizes, options);
  }
  const at::NoGradGuard no_grad;
  RETINA_CHECK(outputs.logits.size() == outputs.deltas.size() && !outputs.logits.empty());
  RETINA_CHECK(outputs.logits[0].size(0) == static_cast<std::int64_t>(image_sizes.size()));
  const at::Tensor anchors = anchors_for(config, padded, outputs.deltas[0].options());  // [A, 4]

  std::vector<ImageDetections> detections;
  for (std::size_t image = 0; image < image_sizes.size(); ++image) {
    const auto row = static_cast<std::int64_t>(image);
    std::vector<at::Tensor> boxes, scores, labels;
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < outputs.logits.size(); ++i) {
      const std::int64_t count = outputs.logits[i].size(1);
      const Candidates level = best_of_level(outputs.logits[i][row], outputs.deltas[i][row],
                                             anchors.narrow(0, begin, count), options);
      boxes.push_back(clip_boxes(level.boxes, image_sizes[image]));
      scores.push_back(level.scores);
      labels.push_back(level.labels);
      begin += count;
    }
    RETINA_CHECK(begin == anchors.size(0), "padded size does not fit the outputs");
    const at::Tensor all_boxes = at::cat(boxes), all_scores = at::cat(scores),
                     all_labels = at::cat(labels);
    at::Tensor kept = batched_nms(all_boxes, all_scores, all_labels, options.nms_threshold);
    kept = kept.narrow(0, 0, std::min<std::int64_t>(kept.size(0), options.max_detections));
    detections.push_back({.boxes = all_boxes.index_select(0, kept),
                          .scores = all_scores.index_select(0, kept),
                          .labels = all_labels.index_select(0, kept)});
  }
  return detections;
}

std::vector<ImageDetections> postprocess_together(const HeadOutputs& outputs,
                                                  const ModelConfig& config, PixelSize padded,
                                                  const std::vector<PixelSize>& image_sizes,
                                                  const PostprocessOptions& options) {
  const at::NoGradGuard no_grad;
  RETINA_CHECK(outputs.logits.size() == outputs.deltas.size() && !outputs.logits.empty());
  const std::int64_t image_count = outputs.logits[0].size(0);
  RETINA_CHECK(image_count == static_cast<std::int64_t>(image_sizes.size()));
  const at::TensorOptions type = outputs.deltas[0].options();
  const at::Tensor anchors = anchors_for(config, padded, type);  // [A, 4]
  std::vector<at::Tensor> boxes, scores, labels;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < outputs.logits.size(); ++i) {
    const std::int64_t count = outputs.logits[i].size(1);
    Candidates level = best_of_levels(outputs.logits[i], outputs.deltas[i],
                                      anchors.narrow(0, begin, count), options);
    boxes.push_back(level.boxes);
    scores.push_back(level.scores);
    labels.push_back(level.labels);
    begin += count;
  }
  RETINA_CHECK(begin == anchors.size(0), "padded size does not fit the outputs");

  const at::Tensor limits = corner_limits(image_sizes, type);
  const at::Tensor unordered_labels = at::cat(labels, 1);  // [N, M]
  const auto [ordered_scores, order] =
      at::sort(at::cat(scores, 1).masked_fill(unordered_labels.lt(0), -1), /*stable=*/true, 1,
               /*descending=*/true);
  const at::Tensor ordered_labels = unordered_labels.gather(1, order);
  const at::Tensor clipped = at::cat(boxes, 1).clamp_min(0).minimum(limits);  // [N, M, 4]
  const at::Tensor ordered_boxes = clipped.gather(1, order.unsqueeze(2).expand_as(clipped));
  const at::Tensor keep = suppress_together(ordered_boxes, ordered_labels, options.nms_threshold);

  // Selects the first ones kept: keys descend with the place.
  const std::int64_t count = order.size(1);
  const at::Tensor keys =
      at::arange(count, 0, -1, order.options()).unsqueeze(0).mul(keep);  // [N, M]
  const auto [best, chosen] = keys.topk(std::min<std::int64_t>(options.max_detections, count), 1);
  const at::Tensor found = at::cat(
      {ordered_boxes, ordered_scores.unsqueeze(2), ordered_labels.unsqueeze(2).to(type.dtype())},
      2);  // [N, M, 6]
  const at::Tensor places = chosen.unsqueeze(2).expand({image_count, chosen.size(1), 6});
  const at::Tensor rows =
      at::cat({found.gather(1, places), best.gt(0).unsqueeze(2).to(type.dtype())}, 2).cpu();

  std::vector<ImageDetections> detections;
  for (std::int64_t image = 0; image < image_count; ++image) {
    const at::Tensor own = rows[image];  // [D, 7]
    const at::Tensor real =
        own.narrow(0, 0, static_cast<std::int64_t>(own.select(1, 6).sum().item<double>()));
    detections.push_back({.boxes = real.narrow(1, 0, 4).contiguous(),
                          .scores = real.select(1, 4).contiguous(),
                          .labels = real.select(1, 5).to(at::kLong)});
  }
  return detections;
}

}  // namespace retina
