#include "train/monitor/validation.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/log.h"
#include "shared/base/printable.h"
#include "shared/base/signals.h"
#include "shared/evaluation/draw/shown_images.h"
#include "shared/evaluation/predict/classify.h"
#include "shared/evaluation/score/classification.h"
#include "shared/evaluation/score/ground_truth.h"
#include "shared/evaluation/score/metrics.h"
#include "shared/evaluation/score/metrics_text.h"
#include "shared/evaluation/score/resampling.h"
#include "shared/model/classifier.h"
#include "shared/model/retinanet.h"

namespace retina {
namespace {

// Returns true when a stop signal came to any rank, which then has not seen all of its share.
// Collective.
bool any_stopped(Communicator& communicator) {
  return communicator.all_reduce_max(stop_signal() != 0 ? 1 : 0) != 0;
}

// A batch's part of the losses over all validation images.
struct BatchLoss {
  std::int64_t image_id = 0;  // index of its first image, which no other batch has
  TaskMetrics parts = {};     // its task_metrics()
};

BatchLoss batch_loss(TrainingTask& task, const TaskOutputs& outputs, const Batch& batch) {
  BatchLoss loss{.image_id = static_cast<std::int64_t>(batch.samples.front().slot.record)};
  const at::Tensor metrics = task.loss(outputs, batch, /*gradient_scale=*/{}).metrics.cpu();
  std::copy_n(metrics.const_data_ptr<double>(), metrics.numel(), loss.parts.begin());
  return loss;
}

// Adds in the order of the batches' images: the same bits whichever ranks computed them.
TaskMetrics sum_of(const std::vector<BatchLoss>& losses) {
  TaskMetrics sum = {};
  for (const BatchLoss& loss : losses) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += loss.parts[i];
  }
  return sum;
}

class DetectionValidation : public Validation {
 public:
  DetectionValidation(const ShardSet& shards, TrainingTask& task, const DetectOptions& options,
                      const std::set<std::int64_t>& seen)
      : shards_(shards), task_(task), options_(options), seen_(seen) {}

  bool run(Communicator& communicator) override {
    auto& network = static_cast<RetinaNet&>(task_.network());
    const ShardSource samples(shards_, network.config().normalisation());
    std::vector<BatchLoss> own_losses;
    DetectOptions running = options_;
    running.on_heads = [&](const Batch& batch, const HeadOutputs& heads) {
      own_losses.push_back(batch_loss(task_, {.heads = heads}, batch));
    };
    const PredictionInput input{samples, shards_.manifest().categories, communicator};
    const std::vector<Detection> own = detect_share(network, input, running);
    if (communicator.is_root()) read_truth();
    if (any_stopped(communicator)) return false;
    detections_ = gather_detections(own, input, running);
    losses_ = sum_of(gather_by_image(communicator, own_losses));
    return true;
  }

  ValidationResult result() override {
    read_truth();
    const CocoMetrics metrics = metrics_of(*truth_, detections_);
    if (!seen_.empty() && seen_.size() < truth_->images.size()) {
      log_info("AP without the ", counted(seen_.size(), "image"),
               " that training has, too: ", metric_text(metrics_of_unseen().stats[kAp]));
    }
    Table classes{.title = "Classes at the last validation",
                  .columns = {"class", "AP", "AP50", "AP75",
                              stat_key(kAr100, metrics.detection_limit), "objects"}};
    for (const ClassMetrics& item : metrics.per_class) {
      classes.rows.push_back({item.name, metric_text(item.stats[kAp]),
                              metric_text(item.stats[kAp50]), metric_text(item.stats[kAp75]),
                              metric_text(item.stats[kAr100]), cat(item.object_count)});
    }
    return {.values = {metrics.stats.begin(), metrics.stats.end()},
            .count_best = metrics.detection_limit,
            .losses = losses_,
            .classes = std::move(classes)};
  }

  std::optional<VerdictInput> verdict_facts() override {
    if (!truth_) return std::nullopt;
    const BoxGroups boxes = groups(*truth_, detections_);
    return retina::verdict_facts(evaluate_detections(boxes), boxes);
  }

  Gallery gallery(std::size_t count) const override {
    Gallery gallery{
        .title = "Example detections",
        .note = "Validation images: detections with a score of 0.4 or more, ground truth dashed."};
    draw_detections(shards_, detections_, {.count = count}, [&](const DrawnImage& drawn) {
      gallery.images.push_back(embed_image(
          drawn.image, cat(image_name(drawn.image_id, drawn.file_name),
                           drawn.part.empty() ? "" : ", ", drawn.part, ": ", drawn.found_count,
                           " found, ", counted(drawn.object_count, "object"))));
    });
    return gallery;
  }

 private:
  void read_truth() {
    if (truth_) return;
    try {
      truth_ = ground_truth_of(shards_);
      keep_first_images(*truth_, options_.max_images);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kInterrupted) throw;
    }
  }

  BoxGroups groups(const Instances& truth, const std::vector<Detection>& detections) const {
    return {truth, detections, 0,
            is_tiled(shards_.index()) ? kMaxDetectionsOnTiles : kMaxDetectionsPerImage};
  }

  CocoMetrics metrics_of(const Instances& truth, const std::vector<Detection>& detections) const {
    return evaluate_detections(groups(truth, detections));
  }

  CocoMetrics metrics_of_unseen() const {
    Instances truth = *truth_;
    std::vector<Detection> detections = detections_;
    const auto is_seen = [&](const auto& one) { return seen_.contains(one.image_id); };
    std::erase_if(truth.images, [&](const ImageInfo& one) { return seen_.contains(one.id); });
    std::erase_if(truth.annotations, is_seen);
    std::erase_if(detections, is_seen);
    return metrics_of(truth, detections);
  }

  const ShardSet& shards_;
  TrainingTask& task_;
  DetectOptions options_;
  std::set<std::int64_t> seen_;
  std::optional<Instances> truth_;  // read once, on rank 0
  // Detections of the last run, on rank 0.
  std::vector<Detection> detections_;
  TaskMetrics losses_ = {};
};

class ClassificationValidation : public Validation {
 public:
  ClassificationValidation(const ShardSet& shards, TrainingTask& task, const DetectOptions& options)
      : shards_(shards), task_(task), options_(options) {}

  bool run(Communicator& communicator) override {
    std::vector<BatchLoss> own_losses;
    DetectOptions running = options_;
    running.on_logits = [&](const Batch& batch, const at::Tensor& logits) {
      own_losses.push_back(batch_loss(task_, {.logits = logits}, batch));
    };
    const std::vector<ClassOutcome> own =
        classify_share(static_cast<Classifier&>(task_.network()), shards_, communicator, running);
    if (any_stopped(communicator)) return false;
    outcomes_ = gather_by_image(communicator, own);
    losses_ = sum_of(gather_by_image(communicator, own_losses));
    return true;
  }

  ValidationResult result() override {
    const ClassificationMetrics metrics = classification_metrics(outcomes_, categories());
    Table classes{.title = "Classes at the last validation",
                  .columns = {"class", "recall", "precision", "F1", "images"}};
    const auto text = [](const std::optional<double>& value) {
      return value ? metric_text(*value) : "-";
    };
    for (const ImageClassMetrics& item : metrics.per_class) {
      classes.rows.push_back({item.name, text(item.recall().value()),
                              text(item.precision().value()), text(item.f1()),
                              cat(item.image_count)});
    }
    return {.values = {metrics.top1.value().value_or(0), metrics.top5.value().value_or(0),
                       metrics.loss},
            .losses = losses_,
            .classes = std::move(classes)};
  }

  Gallery gallery(std::size_t count) const override {
    Gallery gallery{.title = "Mistakes", .note = "Validation images: the most confident mistakes."};
    draw_mistakes(shards_, outcomes_, count, [&](const DrawnImage& drawn) {
      gallery.images.push_back(
          embed_image(drawn.image, image_name(drawn.image_id, drawn.file_name)));
    });
    return gallery;
  }

 private:
  const Categories& categories() const { return shards_.manifest().categories; }

  const ShardSet& shards_;
  TrainingTask& task_;
  DetectOptions options_;
  // Outcomes of the last run, on rank 0.
  std::vector<ClassOutcome> outcomes_;
  TaskMetrics losses_ = {};
};

}  // namespace

std::unique_ptr<Validation> make_validation(const ShardSet& shards, TrainingTask& task,
                                            const DetectOptions& options,
                                            const std::set<std::int64_t>& seen) {
  DetectOptions stoppable = options;
  stoppable.should_stop = [] { return stop_signal() != 0; };
  if (task.network().config().task == Task::kClassification) {
    return std::make_unique<ClassificationValidation>(shards, task, stoppable);
  }
  return std::make_unique<DetectionValidation>(shards, task, stoppable, seen);
}

}  // namespace retina
