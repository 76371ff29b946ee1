#include "train/step/classification_loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>

#include "shared/base/error.h"

namespace retina {

ClassificationLoss classification_loss(const at::Tensor& logits,
                                       const ClassificationTargets& targets, double label_smoothing,
                                       std::int64_t images_global) {
  RETINA_CHECK(images_global >= 1);
  const at::Tensor scores = logits.to(c10::promoteTypes(logits.scalar_type(), at::kFloat));
  const at::Tensor shares =
      targets.counts.to(scores.scalar_type()) * (1.0 / static_cast<double>(images_global));  // [N]
  ClassificationLoss loss;
  loss.cross_entropy =
      (at::cross_entropy_loss(scores, targets.labels, /*weight=*/{}, at::Reduction::None,
                              /*ignore_index=*/-100, label_smoothing) *
       shares)
          .sum();
  const at::NoGradGuard no_grad;
  const at::Tensor own = scores.gather(1, targets.labels.unsqueeze(1));             // [N, 1]
  const at::Tensor classes = at::arange(scores.size(1), targets.labels.options());  // [K]
  const at::Tensor higher =
      (scores.gt(own) | (scores.eq(own) & classes.lt(targets.labels.unsqueeze(1)))).sum(1);  // [N]
  loss.top1 = (higher.lt(1) * shares).sum();
  loss.top5 = (higher.lt(5) * shares).sum();
  return loss;
}

}  // namespace retina
