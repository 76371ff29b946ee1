// Run by ctest under mpirun on 1, 2 and 4 ranks: the gradients of 8 images do not depend on how
// many processes (and passes) share them. Nearly all boxes are in one rank's images, one image has
// none, one slot is a pad slot. Nor, bit for bit, on whether buckets travel during backward; summed
// in rank order nor on the buckets. Prints a row each and ends with 1 when a bound is missed.
#include <ATen/ops/cat.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "shared/base/random.h"
#include "shared/comm/communicator.h"
#include "shared/model/postprocess.h"
#include "train/replica.h"

namespace retina {
namespace {

constexpr std::uint64_t kSeed = 20261121;
constexpr std::int64_t kImages = 8;
constexpr std::int64_t kRealImages = 7;  // the last slot is a pad slot
constexpr int kSidePx = 64;
// Boxes of each image.
constexpr std::int64_t kBoxCounts[kImages] = {40, 25, 0, 1, 2, 1, 1, 3};

ModelConfig small_model() {
  ModelConfig config;
  config.backbone = "resnet18";
  config.class_count = 3;
  config.norm = "frozen";
  config.head_norm = "none";
  config.p6_from_c5 = false;
  config.anchor_sizes = {8, 16, 32, 64, 128};
  return config;
}

// Frozen norms that keep activations near 1, as imported ones do.
void set_weights(RetinaNet& model) {
  const torch::NoGradGuard no_gradient;
  initialise(model, kSeed);
  for (auto& [name, tensor] : state_of(model)) {
    if (tensor.dim() == 1 && name.ends_with(".weight")) tensor.fill_(0.5);
    if (name.find("head.") == 0 && tensor.dim() == 4) tensor.mul_(3);  // heads of some use
  }
}

Batch slots(std::int64_t first, std::int64_t count) {
  const RandomStream pixels = {.seed = kSeed, .use = RandomUse::kTest, .stream = 1};
  const RandomStream corners = {.seed = kSeed, .use = RandomUse::kTest, .stream = 2};
  constexpr std::int64_t kPixels = 3 * kSidePx * kSidePx;
  Batch batch;
  batch.padded_height_px = batch.padded_width_px = kSidePx;
  batch.images = allocate_plain(static_cast<std::size_t>(count * kPixels));
  for (std::int64_t i = 0; i < count * kPixels; ++i) {
    const double unit = pixels.unit(static_cast<std::uint64_t>(first * kPixels + i));
    batch.images[i] = static_cast<float>(4 * unit - 2);
  }
  for (std::int64_t image = first; image < first + count; ++image) {
    Sample sample;
    sample.slot.counts = image < kRealImages;
    for (std::int64_t box = 0; box < kBoxCounts[image]; ++box) {
      const auto place = static_cast<std::uint64_t>(image * 1000 + box * 5);
      const auto draw = [&](std::uint64_t i, double low, double high) {
        return static_cast<float>(low + (high - low) * corners.unit(place + i));
      };
      const float x = draw(0, 0, 40), y = draw(1, 0, 40);
      sample.boxes.push_back({x, y, x + draw(2, 4, 24), y + draw(3, 4, 24)});
      sample.labels.push_back(static_cast<std::int64_t>(corners.below(place + 4, 3)));
    }
    batch.samples.push_back(sample);
  }
  return batch;
}

// Gradients by name after a rank's share of the step and the sum over ranks, in f64.
using Gradients = std::vector<TrainableParameter>;
Gradients gradients_of(const RetinaNet& model) {
  Gradients list;
  for (const auto& [name, tensor] : state_of(model)) {
    if (tensor.requires_grad()) list.push_back({name, tensor.grad().to(at::kDouble).clone()});
  }
  return list;
}

// How a process's share is cut.
struct Share {
  std::int64_t first = 0, count = 0, per_pass = 0;
};
Share share_of(const Communicator& communicator, std::int64_t per_pass) {
  const std::int64_t count = kImages / communicator.size();
  return {
      .first = communicator.rank() * count, .count = count, .per_pass = std::min(count, per_pass)};
}

// In f32, by the trainer's replica.
Gradients gradients_f32(Communicator& communicator, std::int64_t per_pass,
                        const BucketOptions& buckets = {.bucket_bytes = 1 << 20}) {
  Replica replica({.model = small_model(), .buckets = buckets}, communicator);
  set_weights(replica.model());
  const Share share = share_of(communicator, per_pass);
  for (std::int64_t done = 0; done < share.count; done += share.per_pass) {
    replica.accumulate(slots(share.first + done, share.per_pass), kRealImages,
                       done + share.per_pass == share.count);
  }
  replica.all_reduce();
  return gradients_of(replica.model());
}

// In f64, by the same model, loss and buckets.
Gradients gradients_f64(Communicator& communicator, std::int64_t per_pass) {
  RetinaNet model(small_model());
  set_weights(model);
  model->to(at::kDouble);
  std::vector<TrainableParameter> parameters;
  for (const auto& [name, tensor] : state_of(model)) {
    if (tensor.requires_grad()) parameters.push_back({name, tensor});
  }
  GradientBuckets buckets(parameters, {.bucket_bytes = 1 << 20}, communicator);
  const at::Tensor anchors =
      anchors_for(small_model(), {.height = kSidePx, .width = kSidePx}, at::kDouble);
  const Share share = share_of(communicator, per_pass);
  for (std::int64_t done = 0; done < share.count; done += share.per_pass) {
    const Batch batch = slots(share.first + done, share.per_pass);
    const at::Tensor images =
        at::from_blob(batch.images.get(), {share.per_pass, 3, kSidePx, kSidePx}, at::kFloat)
            .to(at::kDouble);
    std::vector<BoxTargets> targets;
    for (const Sample& sample : batch.samples) {
      at::Tensor boxes = torch::zeros({static_cast<std::int64_t>(sample.boxes.size()), 4});
      for (std::size_t i = 0; i < sample.boxes.size(); ++i) {
        std::copy_n(sample.boxes[i].data(), 4, boxes.mutable_data_ptr<float>() + 4 * i);
      }
      targets.push_back({.boxes = boxes,
                         .labels = torch::tensor(sample.labels, at::kLong),
                         .counts = sample.slot.counts});
    }
    if (done + share.per_pass == share.count) buckets.expect_last_pass();
    const DetectionLoss loss =
        detection_loss(model->forward(images), anchors, targets, LossOptions(), kRealImages);
    (loss.classification + loss.box_regression).backward();
  }
  buckets.all_reduce();
  return gradients_of(model);
}

struct Difference {
  double of_norm = 0;    // of all gradients together
  double of_tensor = 0;  // the worst tensor, by its own norm
};
Difference compare(const Gradients& ours, const Gradients& theirs) {
  double squares = 0, difference_squares = 0;
  Difference result;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const double norm = theirs[i].value.norm().item<double>();
    const double difference = (ours[i].value - theirs[i].value).norm().item<double>();
    squares += norm * norm;
    difference_squares += difference * difference;
    result.of_tensor = std::max(result.of_tensor, norm > 0 ? difference / norm : difference);
  }
  result.of_norm = std::sqrt(difference_squares / squares);
  return result;
}

// Prints a row on rank 0. Whether the bounds hold.
bool report(const Communicator& communicator, const char* what, const Difference& found,
            const Difference& bound) {
  const bool good = found.of_norm <= bound.of_norm && found.of_tensor <= bound.of_tensor;
  if (communicator.is_root()) {
    std::printf(
        "%d x %d images, %s: %.1e of the norm (bound %.0e), "
        "%.1e of the worst tensor's (bound %.0e)%s\n",
        communicator.size(), static_cast<int>(kImages) / communicator.size(), what, found.of_norm,
        bound.of_norm, found.of_tensor, bound.of_tensor, good ? "" : "  MISSED");
    std::fflush(stdout);
  }
  return good;
}

int check(Communicator& communicator) {
  at::set_num_threads(1);  // ranks share the cores
  const auto alone = make_self_communicator();
  // One rank has passes to differ by, more ranks differ by themselves.
  const std::int64_t per_pass = communicator.size() == 1 ? 2 : kImages;
  const Gradients wide = gradients_f64(communicator, per_pass);
  const Gradients narrow = gradients_f32(communicator, per_pass);
  const Gradients waited =
      gradients_f32(communicator, per_pass, {.bucket_bytes = 1 << 20, .overlap = false});
  bool good =
      report(communicator, "f32 during backward against after it", compare(narrow, waited), {});
  const BucketOptions ordered{.bucket_bytes = 1 << 20,
                              .wire = {.type = ElementType::kBFloat16, .ordered = true}};
  BucketOptions measured = ordered;
  measured.bucket_bytes = 0;
  good = report(communicator, "bf16 in rank order, buckets of 1 MiB against measured ones",
                compare(gradients_f32(communicator, per_pass, ordered),
                        gradients_f32(communicator, per_pass, measured)),
                {}) &&
         good;
  if (communicator.is_root()) {
    good = report(communicator, "f64 against 1 x 8", compare(wide, gradients_f64(*alone, kImages)),
                  {.of_norm = 1e-12, .of_tensor = 1e-10}) &&
           good;
    good =
        report(communicator, "f32 against 1 x 8", compare(narrow, gradients_f32(*alone, kImages)),
               {.of_norm = 1e-5, .of_tensor = 1e-4}) &&
        good;
  }
  return communicator.all_reduce_max(good ? 0 : 1) == 0 ? 0 : 1;
}

}  // namespace
}  // namespace retina

int main() {
  retina::MpiSession session;
  const auto communicator = retina::make_communicator(session);
  const int code = retina::check(*communicator);
  session.finish();
  return code;
}
