// RetinaNet (Lin et al. 2017): ResNet + feature pyramid + two heads, under torchvision's parameter
// names (tensor_names.h).
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

#include "shared/model/config.h"
#include "shared/model/fpn.h"
#include "shared/model/head_outputs.h"
#include "shared/model/heads.h"
#include "shared/model/layers.h"
#include "shared/model/rank_sum.h"
#include "shared/model/resnet.h"
#include "shared/ops/named_tensor.h"

namespace retina {

// Begins in training mode.
class RetinaNet {
 public:
  // Weights are zero until `initialise` or `load_state`. Validates the configuration.
  explicit RetinaNet(const ModelConfig& config);
  // One owner: a copy would share its tensors.
  RetinaNet(RetinaNet&&) = default;
  RetinaNet& operator=(RetinaNet&&) = default;

  // images [N, 3, H, W] f32, normalised, zero-padded to a multiple of 32 -> all levels' outputs.
  // In training mode the running statistics of batch norm move. Parity with torchvision:
  // tests/parity.
  HeadOutputs forward(const at::Tensor& images) const;

  const ModelConfig& config() const { return config_; }
  // In the order of torchvision's state_dict().
  const std::vector<ModelTensor>& tensors() const { return tensors_; }

  c10::Device device() const { return tensors_.front().tensor.device(); }
  c10::ScalarType scalar_type() const { return tensors_.front().tensor.scalar_type(); }

  bool is_training() const { return norm_mode_.training; }
  void set_training(bool training) { norm_mode_.training = training; }

  // Moves all tensors, converts the floating ones. A trainer must do this before it makes optimizer
  // state.
  void to(c10::Device device);
  void to(c10::ScalarType type);

  // Batch norms of the backbone take their statistics from the images of all ranks while they train
  // (sync_norm.h): forward and backward become collective, over layers in the same order on all
  // ranks. Null: each rank's own again. `ranks` outlives its use. A frozen norm has none to share.
  void share_statistics(RankSum* ranks) { norm_mode_.ranks = ranks; }

 private:
  ModelConfig config_;
  NormMode norm_mode_ = {};
  std::vector<ModelTensor> tensors_;
  ResNet body_;
  Fpn fpn_;
  Head classification_, regression_;
};

// Draws all weights from torchvision's distributions: kaiming normal (fan out) in the backbone,
// kaiming uniform in the pyramid, normal(0, 0.01) in the heads, prior 0.01 in the class bias. A
// tensor's values depend on (seed, its name, its shape) alone, not on thread count, order or what
// else the model has.
void initialise(RetinaNet& model, std::uint64_t seed);

// The same for one parameter by its full name (rows of a new class layer when fine-tuning).
at::Tensor initial_value(const RetinaNet& model, const std::string& name, std::uint64_t seed);

// Lets only the last `trainable_layers` of (stem, layer1, layer2, layer3, layer4) learn: 5 = all,
// 3 = layer2..4 (torchvision's default with imported weights), 0 = pyramid and heads only. Frozen
// parameters get requires_grad = false. Throws Error{kUsage} outside 0..5.
void freeze_backbone(RetinaNet& model, int trainable_layers);

// Lays all convolution weights out channels-last (NHWC). A trainer must do this before it makes
// optimizer state: parameter, gradient and state need equal strides.
void use_channels_last(RetinaNet& model);

// Parameters and buffers (no copies), in the order of torchvision's state_dict().
NamedTensors state_of(const RetinaNet& model);

// Copies values into the model by name; types convert, shapes must agree. Throws Error{kData}, with
// `source` as the subject, naming the first missing, unexpected or mis-shaped tensor.
// num_batches_tracked may be missing, and is ignored by a frozen norm.
void load_state(RetinaNet& model, const NamedTensors& state, const std::string& source);

}  // namespace retina
