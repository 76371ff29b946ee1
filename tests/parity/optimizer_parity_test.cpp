// RMSprop against torch.optim.RMSprop: ten updates, with a stop in the middle, and among them what
// the guard scales back or skips.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <limits>
#include <memory>

#include "tests/parity/golden.h"
#include "tests/parity/table.h"
#include "train/step/optimizer.h"

namespace retina {
namespace {

constexpr OptimizerOptions kRmsprop = {
    .kind = OptimizerKind::kRmsprop, .weight_decay = 0.05, .rho = 0.9, .rmsprop_epsilon = 1e-7};
constexpr double kRate = 0.01;
constexpr std::uint32_t kSteps = 10;

struct Trained {
  at::Tensor parameter, square_avg;
};

// The updates of make_golden.py's rmsprop_case.
Trained train(at::ScalarType type) {
  const at::Tensor parameter =
      draw_f64({.stream = 90, .shape = {23}, .low = -1, .high = 1}).to(type).requires_grad_();
  const NamedTensors parameters = {{"w.weight", parameter}};
  auto optimizer = std::make_unique<Optimizer>(parameters, kRmsprop);
  for (std::uint32_t step = 0; step < kSteps; ++step) {
    const at::Tensor gradient =
        draw_f64({.stream = 91 + step, .shape = {23}, .low = -2, .high = 2}).to(type);
    if (step == 3) {  // twice as large, halved: the same bits
      parameter.mutable_grad() = gradient * 2;
      optimizer->step(kRate, {.divisor = torch::full({}, 2.F)});
      continue;
    }
    if (step == 5) {  // in addition, one that must change nothing
      parameter.mutable_grad() =
          torch::full_like(gradient, std::numeric_limits<double>::quiet_NaN());
      optimizer->step(kRate, {.skip = torch::ones({})});
    }
    if (step == 7) {
      NamedTensors state = optimizer->state();
      for (NamedTensor& item : state) item.tensor = item.tensor.clone();
      optimizer = std::make_unique<Optimizer>(parameters, kRmsprop);
      optimizer->load_state(state, step, "the first half");
    }
    parameter.mutable_grad() = gradient;
    optimizer->step(kRate);
  }
  const NamedTensors state = optimizer->state();
  EXPECT_EQ(state.size(), 1U);
  EXPECT_EQ(state.front().name, "square_avg.w.weight");
  return {.parameter = parameter.detach(), .square_avg = state.front().tensor};
}

TEST(OptimizerParity, RmspropIsPyTorchs) {
  const JsonFile golden = read_golden("optimizers.json");
  for (const auto& [name, type, bound] :
       {std::tuple{"f32", at::kFloat, 1e-6}, std::tuple{"f64", at::kDouble, 1e-14}}) {
    const JsonView expected = golden.root().at("rmsprop").at(name);
    const Trained found = train(type);
    double worst = 0;
    for (const auto& [key, tensor] :
         {std::pair{"parameter", found.parameter}, std::pair{"square_avg", found.square_avg}}) {
      const at::Tensor distance = tensor.to(at::kDouble) - list(expected.at(key));
      worst = std::max(worst, distance.abs().max().item<double>());
    }
    EXPECT_TRUE(holds({"10 RMSprop steps and their state, absolute", name, worst, bound}));
  }
}

}  // namespace
}  // namespace retina
