// The common part of all networks: tensors under their names, a mode, and batch norm that may be
// over the images of all ranks.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

#include "shared/model/config.h"
#include "shared/model/layers.h"
#include "shared/model/norm.h"
#include "shared/ops/named_tensor.h"

namespace retina {

// Distribution of a tensor's initial values.
struct StartValue {
  enum class Kind { kConstant, kNormal, kUniform };
  Kind kind = Kind::kConstant;
  // The constant, the standard deviation (mean 0), or the bound: uniform in [-scale, scale).
  double scale = 0;
};

// Beginnings of the names of a network's tensors (tensor_names.h).
struct NetworkNames {
  std::string body{};         // the backbone's
  std::string class_layer{};  // that of the layer with a row for each class
};

// A network; begins in training mode.
class Network {
 public:
  virtual ~Network() = default;
  // Movable only: a copy would share its tensors.
  Network(Network&&) = default;
  Network& operator=(Network&&) = default;

  const ModelConfig& config() const { return config_; }
  // Returns the tensors in the order of torchvision's state_dict().
  const std::vector<ModelTensor>& tensors() const { return tensors_; }

  c10::Device device() const { return tensors_.front().tensor.device(); }
  c10::ScalarType scalar_type() const { return tensors_.front().tensor.scalar_type(); }

  bool is_training() const { return norm_mode_.training; }
  void set_training(bool training) { norm_mode_.training = training; }

  // Moves all tensors to a device; converts those of floats to a type. A trainer must do this
  // before it makes optimizer state.
  void to(c10::Device device);
  void to(c10::ScalarType type);

  // Makes batch norms take their statistics from the images of all ranks in training (sync_norm.h):
  // forward and backward become collective, over layers in the same order on all ranks. Null: each
  // rank's own again. `ranks` must outlive its use. Has no effect on frozen norms.
  void share_statistics(RankSum* ranks) { norm_mode_.ranks = ranks; }

  const std::string& body_prefix() const { return names_.body; }
  const std::string& class_layer() const { return names_.class_layer; }
  // Returns the initial values of tensor `name`, shaped as `like`.
  virtual StartValue start_value(const std::string& name, const at::Tensor& like) const = 0;

 protected:
  // Validates the configuration. Weights are zero until `initialise` or `load_state`.
  Network(const ModelConfig& config, NetworkNames names);

  const NormMode& norm_mode() const { return norm_mode_; }
  ModelScope scope(const std::string& prefix) { return {tensors_, prefix}; }

 private:
  ModelConfig config_;
  NetworkNames names_;
  NormMode norm_mode_ = {};
  std::vector<ModelTensor> tensors_;
};

// Puts a network into evaluation mode for a scope and restores its mode.
class EvaluationMode {
 public:
  explicit EvaluationMode(Network& network) : network_(network), training_(network.is_training()) {
    network.set_training(false);
  }
  ~EvaluationMode() { network_.set_training(training_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  Network& network_;
  bool training_;
};

// Returns the initial values of a backbone's convolutions as in torchvision: He et al. 2015, fan
// out, for ReLU. Norms start as the identity, biases at 0.
StartValue body_start_value(const std::string& name, const at::Tensor& like);

// Draws all weights as `start_value` says. A tensor's values depend on (seed, its name, its shape)
// alone, not on thread count, order or the rest of the network.
void initialise(Network& network, std::uint64_t seed);

// Returns the value that `initialise` would draw for one tensor, by its full name: for rows of a
// new class layer when fine-tuning. Throws Error{kInternal} for an unknown name.
at::Tensor initial_value(const Network& network, const std::string& name, std::uint64_t seed);

// Freezes all but the last `trainable_layers` of the backbone's five stages (backbone_stages,
// network_shape.h): 5 = none is frozen, 3 = a ResNet's layer2..4 learn (torchvision's default with
// imported weights), 0 = only the layers on top of it learn. Frozen parameters get requires_grad =
// false. Throws Error{kUsage} outside 0..5.
void freeze_backbone(Network& network, int trainable_layers);

// Lays all convolution weights out channels-last (NHWC). A trainer must do this before it makes
// optimizer state: parameter, gradient and state need equal strides.
void use_channels_last(Network& network);

// Returns parameters and buffers (no copies), in the order of torchvision's state_dict().
NamedTensors state_of(const Network& network);

// Copies values into the network by name; types convert, shapes must agree. Throws Error{kData},
// with `source` as the subject, naming the first missing, unexpected or mis-shaped tensor.
// num_batches_tracked may be missing, and is ignored by a frozen norm.
void load_state(Network& network, const NamedTensors& state, const std::string& source);

}  // namespace retina
