#include "train/scaling_setup.h"

#include <ATen/Parallel.h>

#include "shared/base/error.h"
#include "train/reduce/bucket_plan.h"

namespace retina {
namespace {

std::string min_sides_text(const TrainOptions& options) {
  std::string text;
  for (const auto side : options.min_sides_px) text += cat(text.empty() ? "" : ",", side);
  return text.empty() ? "one" : text;
}

const char* on_off(bool value) {
  return value ? "on" : "off";
}

// What decides the speed of a product.
std::string products(const TrainOptions& options, const c10::Device& device) {
  const bool tf32 = options.precision == Precision::kFp32 && options.tf32 && device.is_cuda();
  return tf32 ? "tf32" : word_of(kPrecisions, options.precision);
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
  return {.setup = {{"model", options.model_config(train.class_count()).to_json()},
                    {"min-sides", min_sides_text(options)},
                    {"trainable layers", cat(options.layers_to_train())},
                    {"sync-bn", on_off(options.sync_bn)},
                    {"training set", train.fingerprint},
                    {"images a rank", cat(images_per_rank)},
                    {"images a pass", cat(options.micro_batch)},
                    {"optimizer", word_of(kOptimizers, options.optimizer)},
                    {"precision", products(options, device)},
                    {"wire", word_of(kWireTypes, options.wire)},
                    {"deterministic-reduce", on_off(options.deterministic_reduce)},
                    {"overlap-reduce", on_off(options.overlap_reduce)},
                    {"bucket-mb", options.bucket_mb},
                    {"device", device.is_cuda() ? "cuda" : "cpu"},
                    {"compute threads", cat(at::get_num_threads())},
                    {"decode threads", options.threads == 0 ? "as needed" : cat(options.threads)}},
          .images_per_rank = static_cast<double>(images_per_rank),
          .images_per_epoch =
              static_cast<double>(draws_per_epoch(train.source.index(), options.plan_options()))};
}

}  // namespace retina
