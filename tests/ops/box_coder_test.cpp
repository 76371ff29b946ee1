#include "shared/ops/box_coder.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include "tests/ops/test_tensors.h"

namespace retina {
namespace {

TEST(BoxCoder, DecodingUndoesEncoding) {
  const at::Tensor boxes = random_boxes({.seed = 1, .count = 50});
  const at::Tensor anchors = random_boxes({.seed = 2, .count = 50});
  const at::Tensor back = decode_boxes(encode_boxes(boxes, anchors), anchors);
  EXPECT_LE((back - boxes).abs().max().item<double>(), 1e-10);
}

TEST(BoxCoder, EncodesCentreShiftsInAnchorSizesAndSidesAsLogarithms) {
  const at::Tensor anchor = torch::tensor({0., 0., 10., 20.}).view({1, 4});
  const at::Tensor box = torch::tensor({5., 10., 25., 30.}).view({1, 4});
  const at::Tensor expected = torch::tensor({1.0, 0.5, std::log(2.0), 0.0}).view({1, 4});
  EXPECT_TRUE(encode_boxes(box, anchor).allclose(expected));
}

TEST(BoxCoder, HugeSidesAreClippedBeforeTheExponential) {
  const at::Tensor anchor = torch::tensor({0., 0., 16., 16.}, at::kDouble).view({1, 4});
  const at::Tensor deltas = torch::tensor({0., 0., 100., 1000.}, at::kDouble).view({1, 4});
  const at::Tensor box = decode_boxes(deltas, anchor);
  EXPECT_NEAR((box[0][2] - box[0][0]).item<double>(), 1000, 1e-9);
  EXPECT_NEAR((box[0][3] - box[0][1]).item<double>(), 1000, 1e-9);
}

TEST(BoxCoder, ClippingKeepsEachAxisInsideItsOwnSide) {
  const at::Tensor boxes = torch::tensor({-5., -6., 500., 600., 10., 20., 30., 40.}).view({2, 4});
  const at::Tensor clipped = clip_boxes(boxes, {.height = 100, .width = 200});
  EXPECT_TRUE(clipped.equal(torch::tensor({0., 0., 200., 100., 10., 20., 30., 40.}).view({2, 4})));
}

TEST(BoxCoder, NoBoxesGiveNoBoxes) {
  const at::Tensor none = torch::zeros({0, 4});
  EXPECT_EQ(encode_boxes(none, none).size(0), 0);
  EXPECT_EQ(decode_boxes(none, none).size(0), 0);
}

}  // namespace
}  // namespace retina
