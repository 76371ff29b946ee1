#include "train/step/network_graphs.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/log.h"
#include "shared/model/device.h"

namespace retina {
namespace {

// Parameters have no gradient within its life, and get back what they had.
class GradientsAside {
 public:
  explicit GradientsAside(const std::vector<at::Tensor>& parameters) : parameters_(parameters) {
    for (const at::Tensor& parameter : parameters_) {
      kept_.push_back(std::exchange(parameter.mutable_grad(), {}));
    }
  }
  ~GradientsAside() {
    for (std::size_t i = 0; i < kept_.size(); ++i) parameters_[i].mutable_grad() = kept_[i];
  }
  GradientsAside(const GradientsAside&) = delete;
  GradientsAside& operator=(const GradientsAside&) = delete;

 private:
  const std::vector<at::Tensor>& parameters_;
  std::vector<at::Tensor> kept_;
};

// The same memory without what autograd has recorded; the loss asks whether it wants a gradient.
std::vector<at::Tensor> detached(const std::vector<at::Tensor>& values) {
  std::vector<at::Tensor> list;
  for (const at::Tensor& value : values) list.push_back(value.detach().requires_grad_());
  return list;
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace

NetworkGraph::NetworkGraph(const at::Tensor& images, const NetworkForward& forward,
                           const std::vector<at::Tensor>& parameters, CudaGraphRecorder& recorder)
    : images_(at::empty_like(images)) {
  const GradientsAside aside(parameters);
  std::vector<at::Tensor> outputs;  // with what autograd recorded
  forward_ = recorder.record([&] {
    const HeadOutputs heads = forward(images_);
    outputs = heads.logits;
    outputs.insert(outputs.end(), heads.deltas.begin(), heads.deltas.end());
    outputs_ = {.logits = detached(heads.logits), .deltas = detached(heads.deltas)};
  });
  for (const at::Tensor& output : outputs) {
    RETINA_CHECK(output.requires_grad());
    output_gradients_.push_back(at::empty_like(output));
  }
  backward_ = recorder.record([&] {
    torch::autograd::backward(outputs, output_gradients_);
    for (const at::Tensor& parameter : parameters) gradients_.push_back(parameter.grad());
  });
}

const HeadOutputs& NetworkGraph::forward(const at::Tensor& images) {
  const at::NoGradGuard no_grad;
  images_.copy_(images);
  forward_->replay();
  return outputs_;
}

const std::vector<at::Tensor>& NetworkGraph::backward(
    const std::vector<at::Tensor>& output_gradients) {
  const at::NoGradGuard no_grad;
  at::_foreach_copy_(output_gradients_, output_gradients);
  backward_->replay();
  return gradients_;
}

NetworkGraphs::NetworkGraphs(std::vector<at::Tensor> parameters, c10::Device device)
    : parameters_(std::move(parameters)),
      device_(device),
      recorder_(make_cuda_graph_recorder(device)) {}

bool NetworkGraphs::may_record() const {
  const auto graphs = std::count_if(sizes_.begin(), sizes_.end(),
                                    [](const auto& item) { return item.second.graph != nullptr; });
  const auto unused = at::getDeviceAllocator(device_.type())->getMemoryInfo(device_.index()).first;
  return graphs < kMostGraphs && static_cast<std::int64_t>(unused) >= peak_device_bytes(device_);
}

NetworkGraph* NetworkGraphs::of(const at::Tensor& images, const NetworkForward& forward) {
  if (recorder_ == nullptr) return nullptr;
  Size& size = sizes_[images.sizes().vec()];
  if (size.graph) return size.graph.get();
  if (size.passes++ != kPassesBefore || !may_record()) return nullptr;
  try {
    size.graph = std::make_unique<NetworkGraph>(images, forward, parameters_, *recorder_);
    return size.graph.get();
  } catch (const std::exception& refusal) {
    log_warning("--cuda-graphs auto: recording failed (", first_line(refusal.what()),
                "): this run goes on without graphs, with the same results");
    clear();
    recorder_.reset();
    return nullptr;
  }
}

}  // namespace retina
