#include "shared/ops/own_kernels.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <c10/util/Exception.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/log.h"
#include "shared/ops/atss.h"
#include "shared/ops/batch_norm.h"
#include "shared/ops/bias_relu.h"
#include "shared/ops/dropout.h"
#include "shared/ops/group_norm.h"
#include "shared/ops/head_losses.h"
#include "shared/ops/matcher.h"
#include "shared/ops/nms.h"
#include "shared/ops/prepare_images.h"

namespace retina {
namespace {

using Results = std::vector<at::Tensor>;
using Shape = std::vector<std::int64_t>;

std::array<std::atomic<bool>, kOwnKernelCount> replaced;

// Random inputs, the same of each new one.
struct Draw {
  c10::Device device;
  at::ScalarType type;
  at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(std::uint64_t{1});

  at::Tensor unit(const Shape& shape) { return at::rand(shape, generator, at::kFloat); }
  // f32 of sizes 0.5 to 1.5 and both signs: what a ReLU lets pass does not hang on rounding.
  at::Tensor values(const Shape& shape) {
    return ((unit(shape) + .5) * (unit(shape).round() * 2 - 1)).to(device);
  }
  at::Tensor image(const Shape& shape, double scale = 1) {
    return (values(shape) * scale).to(type).contiguous(at::MemoryFormat::ChannelsLast);
  }
  at::Tensor integers(double low, double end, const Shape& shape) {
    return (unit(shape) * (end - low) + low).floor().to(device, at::kLong);
  }
  at::Tensor boxes(std::int64_t count) {  // on whole pixels: some IoUs tie
    const at::Tensor corner = (unit({count, 2}) * 100).round();
    return at::cat({corner, corner + 12 + (unit({count, 2}) * 50).round()}, 1).to(device);
  }
};

// With whole vectors in a row and without; several blocks, the last not full.
const std::array<Shape, 2> kShapes = {{{2, 64, 13, 13}, {2, 22, 31, 17}}};

// y(inputs) and its gradients at the inputs.
template <class Function>
void add_with_gradients(Results& all, Draw& draw, Results inputs, const Function& y) {
  for (at::Tensor& input : inputs) input = input.detach().requires_grad_();
  const at::Tensor result = y(inputs);
  const Results gradients =
      torch::autograd::grad({result}, inputs, {draw.image(result.sizes().vec())});
  all.insert(all.end(), gradients.begin(), gradients.end());
  all.push_back(result.detach());
}

Results batch_norms(Draw draw) {
  Results all;
  for (const Shape& shape : kShapes) {
    const auto of_channels = [&] { return draw.values({shape[1]}); };
    for (const int form : {0, 1, 2}) {  // alone, with a ReLU, with a residual, too
      const at::Tensor mean = of_channels(), var = of_channels().abs();
      Results inputs = {draw.image(shape), of_channels(), of_channels() * .1};
      if (form == 2) inputs.push_back(draw.image(shape, 8));
      add_with_gradients(all, draw, inputs, [&](const Results& x) {
        return batch_norm_relu(x[0], {.weight = x[1],
                                      .bias = x[2],
                                      .running_mean = mean,
                                      .running_var = var,
                                      .residual = form == 2 ? x[3] : at::Tensor(),
                                      .relu = form > 0});
      });
      all.insert(all.end(), {mean, var});
    }
  }
  return all;
}

Results group_norms(Draw draw) {
  Results all;
  for (const Shape& shape : kShapes) {
    const at::Tensor weight = draw.values({shape[1]}), bias = draw.values({shape[1]}) * .1;
    add_with_gradients(all, draw, {draw.image(shape), weight, bias}, [&](const Results& x) {
      return group_norm_relu(x[0], shape[1] / 8, x[1], x[2], 1e-5);
    });
  }
  return all;
}

Results bias_relus(Draw draw) {
  Results all;
  for (const Shape& shape : kShapes) {
    const at::Tensor bias = draw.values({shape[1]}) * .1, residual = draw.image(shape, 8);
    for (const at::Tensor& added : {at::Tensor(), residual}) {
      add_with_gradients(all, draw, {draw.image(shape), bias}, [&](const Results& x) {
        return bias_relu(x[0].clone(), {.bias = x[1], .residual = added});  // in place
      });
    }
  }
  return all;
}

// Of three images, the second without boxes. Each block of threads has something to find: anchors
// come again and again.
Results assigners(Draw draw) {
  constexpr PixelSize kPadded = {.height = 96, .width = 160};
  auto grid = grid_anchors({.sizes = {16, 32, 64, 128, 256}}, kPadded);
  const auto grids = level_grids(kPadded);
  const at::Tensor cells = at::from_blob(grid.data(), {std::ssize(grid), 4}).to(draw.device),
                   anchors = draw.boxes(254).repeat({5, 1}), boxes = draw.boxes(9),
                   offsets = at::tensor({0, 2, 2, 9}, at::kLong).to(draw.device),
                   claims = draw.integers(kIgnored, 3, {3, 5 * 254}),
                   ignored = draw.integers(kIgnored, 3, {3, 5 * 254});
  ignore_partial_boxes(anchors, {boxes, offsets, claims}, ignored);
  return {ignored, match_anchors(anchors, boxes, offsets, {}),
          match_anchors(anchors, boxes, offsets, {.foreground_iou = .95, .background_iou = .9}),
          atss_match_anchors(cells, {grids.begin(), grids.end()}, boxes, offsets)};
}

// Of two images on two levels.
Results losses(Draw draw) {
  constexpr std::int64_t kAnchors = 430, kClasses = 7, kBoxes = 9;
  const auto levels = [&](std::int64_t values, double size) {
    const at::Tensor all = (draw.values({2, kAnchors, values}) * size).to(draw.type);
    return Results{all.slice(1, 0, kAnchors / 3), all.slice(1, kAnchors / 3)};
  };
  const Results logits = levels(kClasses, 3), deltas = levels(4, 1);
  const at::Tensor anchors = draw.boxes(kAnchors), boxes = draw.boxes(kBoxes),
                   matches = draw.integers(kIgnored, kBoxes, {2, kAnchors}),
                   labels = draw.integers(0, kClasses, {kBoxes}), weights = draw.values({2});
  Results all;
  const auto add = [&all](const LossSums& loss) {
    all.push_back(loss.sums);
    all.insert(all.end(), loss.gradients.begin(), loss.gradients.end());
  };
  add(focal_loss(logits, matches, labels, weights, {}));
  for (const auto kind : {ClassLossKind::kQualityFocal, ClassLossKind::kVarifocal}) {
    add(quality_loss(logits, {deltas, anchors, boxes}, matches, labels, weights, kind));
  }
  for (const auto kind : {BoxLossKind::kSmoothL1, BoxLossKind::kGiou, BoxLossKind::kCiou}) {
    add(box_loss(deltas, anchors, boxes, matches, weights, {.kind = kind}));
  }
  return all;
}

Results dropouts(Draw draw) {
  Results all;
  const at::Tensor slots = draw.integers(0, 65536, {2});
  add_with_gradients(all, draw, {draw.image(kShapes[1])}, [&](const Results& x) {
    return dropout(x[0], .3, slots, {.seed = 7, .step = 5, .layer = 2});
  });
  return all;
}

Results kept_boxes(Draw draw) {
  const at::Tensor boxes = draw.boxes(450).view({3, 150, 4});
  return {suppress_together(boxes, draw.integers(-1, 3, {3, 150}), .4)};
}

// One resized and mirrored, one warped.
Results prepared_images(Draw draw) {
  std::array<ImageRow, 2> rows;
  rows.fill({.width = 37, .height = 23, .out_width = 61, .out_height = 41, .flip = true});
  rows[1].warps = true;
  for (const int i : {0, 4}) rows[1].source_of[i] = .6;
  for (const int i : {0, 5, 10}) rows[1].colour[i] = .9F;
  const at::Tensor table = at::from_blob(rows.data(), {sizeof rows}, at::kByte).to(draw.device),
                   block = draw.integers(0, 256, {3 * 37 * 23}).to(at::kByte);
  return {prepare_images(block, table, {.padded = {64, 64}, .type = draw.type})};
}

struct Comparison {
  const char* name;
  Results (*results)(Draw draw);
};
// By OwnKernel.
constexpr std::array<Comparison, kOwnKernelCount> kComparisons = {
    {{"assigners", assigners},
     {"batch norm", batch_norms},
     {"bias and ReLU", bias_relus},
     {"dropout", dropouts},
     {"group norm", group_norms},
     {"losses", losses},
     {"NMS", kept_boxes},
     {"preparing images", prepared_images}}};

// Of results, relative to the largest of them: several roundings.
double tolerance(at::ScalarType type) {
  if (type == at::kBFloat16) return 2e-2;
  return type == at::kHalf ? 3e-3 : type == at::kFloat ? 1e-4 : 0;
}

// What is wrong with the kernel, or "".
std::string problem_of(std::size_t kernel, c10::Device device, at::ScalarType type) try {
  // First, so that memory that a kernel leaves as it was does not hold the right results.
  replaced[kernel] = false;
  const Results found = kComparisons[kernel].results({device, type});
  replaced[kernel] = true;
  const Results expected = kComparisons[kernel].results({device, type});
  for (std::size_t i = 0; i < found.size(); ++i) {
    const at::Tensor right = expected[i].cpu().to(at::kDouble);
    const double apart = (found[i].cpu().to(at::kDouble) - right).abs().max().item<double>();
    const double most = tolerance(expected[i].scalar_type()) * right.abs().max().item<double>();
    if (apart <= most) continue;
    return cat(fixed(apart, 6), " apart, where rounding explains ", fixed(most, 6));  // or NaN
  }
  return "";
} catch (const Error& error) {
  return error.what();
} catch (const c10::Error& error) {
  log_warning("own kernels: ", kComparisons[kernel].name,
              " is not compared: ", error.what_without_backtrace());
  return "";
}

}  // namespace

bool is_replaced(OwnKernel kernel, const at::Tensor& tensor) {
  return tensor.is_cuda() && replaced[static_cast<std::size_t>(kernel)];
}

bool is_left_to_libtorch(OwnKernel kernel, const at::Tensor& tensor) {
  return !tensor.is_cuda() || tensor.numel() == 0 || is_replaced(kernel, tensor);
}

void replace_wrong_kernels(c10::Device device, at::ScalarType type, Communicator& ranks) {
  const auto begin = std::chrono::steady_clock::now();
  std::array<std::int64_t, kOwnKernelCount> wrong = {};
  std::string problems;
  for (std::size_t i = 0; device.is_cuda() && i < wrong.size(); ++i) {
    const std::string problem = problem_of(i, device, type);
    wrong[i] = problem.empty() ? 0 : 1;
    if (wrong[i] != 0) problems += cat("; ", kComparisons[i].name, ": ", problem);
  }
  // Replicas that compute differently drift apart.
  ranks.label("agreement on kernels");
  ranks.all_reduce(wrong.data(), wrong.size(), ElementType::kInt64, ReduceOp::kMax);
  std::string names;
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    replaced[i] = wrong[i] != 0;
    if (replaced[i]) names += cat(names.empty() ? "" : ", ", kComparisons[i].name);
  }
  if (names.empty() && ranks.is_root() && device.is_cuda()) {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    log_info("own kernels: ", kOwnKernelCount, " compared with LibTorch's operations in ",
             fixed(took.count(), 2), " s");
  } else if (!problems.empty()) {
    log_warning("own kernels: wrong on this GPU", problems,
                "; LibTorch or the CPU does the work of ", names, " in this run, more slowly");
  }
}

}  // namespace retina
