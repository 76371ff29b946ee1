// Batch norm over ranks on a GPU against the CPU. One rank: what the others add is none of the
// kernels' business.
#include <torch/types.h>

#include "shared/model/sync_norm.h"
#include "tests/gpu/gpu.h"

namespace retina {
namespace {

class LoneRank : public RankSum {
 public:
  void sum(std::span<double>, const std::string&) override {}
};

// The output, the gradients of input, weight and bias, and the running statistics; on the CPU.
std::vector<at::Tensor> results_on(c10::Device device) {
  torch::manual_seed(1);
  const auto draw = [&](std::vector<std::int64_t> shape) {
    return torch::randn(shape, at::kDouble).to(device);
  };
  const at::Tensor input = draw({3, 5, 7, 4}).requires_grad_(), weight = draw({5}).requires_grad_(),
                   bias = draw({5}).requires_grad_(), running_mean = draw({5}),
                   running_var = draw({5}).square(), output_gradient = draw({3, 5, 7, 4});
  LoneRank alone;
  const SyncNorm options{.ranks = &alone, .name = "norm"};
  const at::Tensor output =
      sync_batch_norm(input, weight, bias, running_mean, running_var, options);
  output.backward(output_gradient);
  std::vector<at::Tensor> results;
  for (const at::Tensor& tensor :
       {output.detach(), input.grad(), weight.grad(), bias.grad(), running_mean, running_var}) {
    results.push_back(tensor.cpu());
  }
  return results;
}

TEST(SyncNormOnGpu, GivesTheCpusOutputAndGradients) {
  RETINA_GPU_OR_SKIP();
  const auto cpu = results_on(c10::kCPU), gpu = results_on(kGpu);
  for (std::size_t i = 0; i < cpu.size(); ++i) {
    EXPECT_TRUE(gpu[i].allclose(cpu[i], 1e-11, 1e-11))
        << i << ": " << (gpu[i] - cpu[i]).abs().max();
  }
}

}  // namespace
}  // namespace retina
