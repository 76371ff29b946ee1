// NCCL with one rank: its start, types, and that the 16-bit wire's casts wait for what fills a
// bucket. Alone NCCL moves nothing, so order and sums in 32 bit need as many GPUs as ranks:
// TwoGpus in commands_on_gpu_test.cpp.
#include <torch/types.h>

#include <thread>

#include "tests/gpu/gpu.h"
#include "train/reduce/gradient_transport.h"
#include "train/reduce/nccl_communicator.h"

namespace retina {
namespace {

TEST(NcclOnGpu, SumsOfOneRankKeepEveryBit) {
  RETINA_GPU_OR_SKIP();
  const auto host = make_self_communicator();
  const auto nccl = make_nccl_communicator(*host, 0);
  ASSERT_NE(nccl, nullptr);
  const at::Tensor values = torch::randn({100'003}, torch::kCUDA);
  for (const auto& [torch_type, type] : std::vector<std::pair<at::ScalarType, ElementType>>{
           {at::kFloat, ElementType::kFloat32},
           {at::kDouble, ElementType::kFloat64},
           {at::kHalf, ElementType::kFloat16},
           {at::kBFloat16, ElementType::kBFloat16}}) {
    const at::Tensor data = values.to(torch_type).clone();
    torch::cuda::synchronize();
    nccl->all_reduce(data.data_ptr(), static_cast<std::size_t>(data.numel()), type, ReduceOp::kSum);
    EXPECT_TRUE(torch::equal(data, values.to(torch_type))) << element_name(type);
  }
  EXPECT_EQ(nccl->stats().all_reduce.calls, 4);
}

// The bucket is handed over while the kernels that fill it are still queued, as backward does.
TEST(NcclOnGpu, ABucketTravelsAfterItIsFilled) {
  RETINA_GPU_OR_SKIP();
  const auto host = make_self_communicator();
  for (const ElementType wire :
       {ElementType::kFloat32, ElementType::kBFloat16, ElementType::kFloat16}) {
    const auto transport = make_nccl_transport(
        *host, {.wire = {.type = wire}, .device = c10::Device(c10::kCUDA, 0), .bucket_count = 1});
    ASSERT_NE(transport, nullptr);
    at::Tensor bucket = torch::zeros({1 << 24}, torch::kCUDA);
    const at::Tensor gradient = torch::randn({1 << 24}, torch::kCUDA);
    at::Tensor want = gradient.mul(8);
    if (wire == ElementType::kBFloat16) want = want.to(at::kBFloat16).to(at::kFloat);
    if (wire == ElementType::kFloat16) want = want.mul(1024).to(at::kHalf).to(at::kFloat).div(1024);
    torch::cuda::synchronize();
    for (int i = 0; i < 8; ++i) bucket.add_(gradient);
    transport->filled(0);
    std::thread([&] {
      transport->wait_until_filled(0);
      transport->sum(bucket, 0);
    }).join();
    EXPECT_LE((bucket - want).abs().max().item<double>(),
              wire == ElementType::kFloat32 ? 1e-3 : 0.3);
    EXPECT_EQ(transport->repeated_count(), 0);
    EXPECT_EQ(transport->traffic().calls, 1);
    EXPECT_EQ(transport->traffic().bytes, (1 << 24) * static_cast<int>(element_size_bytes(wire)));
  }
}

TEST(NcclOnGpu, WhatHalfCannotHoldIsSummedAgain) {
  RETINA_GPU_OR_SKIP();
  const auto host = make_self_communicator();
  const auto transport = make_nccl_transport(*host, {.wire = {.type = ElementType::kFloat16},
                                                     .device = c10::Device(c10::kCUDA, 0),
                                                     .bucket_count = 1});
  ASSERT_NE(transport, nullptr);
  at::Tensor bucket = torch::ones({1000}, torch::kCUDA);
  bucket.select(0, 7).fill_(1e6);
  transport->filled(0);
  transport->wait_until_filled(0);
  transport->sum(bucket, 0);
  EXPECT_EQ(bucket[7].item<float>(), 1e6F);
  EXPECT_EQ(bucket[8].item<float>(), 1);
  EXPECT_EQ(transport->repeated_count(), 1);
}

}  // namespace
}  // namespace retina
