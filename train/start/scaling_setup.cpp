#include "train/start/scaling_setup.h"

#include <ATen/Parallel.h>

#include "shared/base/error.h"

namespace retina {
namespace {

std::string min_sides_text(const TrainOptions& options) {
  std::string text;
  for (const auto side : options.drawn_sides()) text += cat(text.empty() ? "" : ",", side);
  return text.empty() ? "one" : text;
}

const char* on_off(bool value) {
  return value ? "on" : "off";
}

// Returns the settings that decide the speed of products.
std::string products(const TrainOptions& options, const c10::Device& device) {
  const bool tf32 =
      options.compute.precision == Precision::kFp32 && options.compute.tf32 && device.is_cuda();
  return tf32 ? "tf32" : word_of(kPrecisions, options.compute.precision);
}

}  // namespace

void check_even_shares(const TrainOptions& options, int rank_count) {
  const int left = options.step_images() % rank_count;
  if (left == 0) return;
  const int less = options.step_images() - left;
  throw Error(ErrorKind::kConfig,
              cat("--scaling-report: ", rank_count, " ranks share ", options.step_images(),
                  " images per step unevenly, which cannot be compared"),
              cat("use the same number of images per rank in each run: --images-per-step ", less,
                  " or ", less + rank_count));
}

ScalingData scaling_data(const TrainOptions& options, const TrainingSet& train, int rank_count,
                         const c10::Device& device) {
  const int images_per_rank = options.step_images() / rank_count;
  const int threads = options.data.decode_threads;
  const BucketOptions& buckets = options.distribution.buckets;
  return {.setup = {{"model", options.model_config(train.class_count()).to_json()},
                    {"min-sides", min_sides_text(options)},
                    {"trainable layers", cat(options.layers_to_train())},
                    {"sync-bn", on_off(options.model.sync_bn)},
                    {"training set", train.fingerprint},
                    {"images a rank", cat(images_per_rank)},
                    {"images a pass", cat(options.micro_batch_images().value_or(0))},
                    {"optimizer", word_of(kOptimizers, options.optimizer.rule.kind)},
                    {"precision", products(options, device)},
                    {"wire", word_of(kWireTypes, buckets.wire.type)},
                    {"deterministic-reduce", on_off(buckets.wire.ordered)},
                    {"overlap-reduce", on_off(buckets.overlap)},
                    {"bucket-mb", options.distribution.bucket_mb},
                    {"device", device.is_cuda() ? "cuda" : "cpu"},
                    {"compute threads", cat(at::get_num_threads())},
                    {"decode threads", threads == 0 ? "as needed" : cat(threads)}},
          .images_per_rank = static_cast<double>(images_per_rank),
          .images_per_epoch =
              static_cast<double>(draws_per_epoch(train.source.index(), options.plan_options()))};
}

}  // namespace retina
