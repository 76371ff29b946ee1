// Comparisons of checkpoints' tensors.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "shared/ops/named_tensor.h"

namespace retina {

// Equal names, shapes and bits.
inline void expect_same_bits(const NamedTensors& left, const NamedTensors& right) {
  ASSERT_EQ(left.size(), right.size());
  for (std::size_t i = 0; i < left.size(); ++i) {
    ASSERT_EQ(left[i].name, right[i].name);
    EXPECT_TRUE(at::equal(left[i].tensor, right[i].tensor)) << left[i].name;
  }
}

// Of the norm of all tensors that end with `ending`.
inline double relative_difference(const NamedTensors& one, const NamedTensors& two,
                                  const std::string& ending = "") {
  EXPECT_EQ(one.size(), two.size());
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].name, two[i].name);
    if (!one[i].name.ends_with(ending)) continue;
    const at::Tensor left = one[i].tensor.to(at::kDouble), right = two[i].tensor.to(at::kDouble);
    difference += (left - right).square().sum().item<double>();
    norm += left.square().sum().item<double>();
  }
  return std::sqrt(difference / norm);
}

}  // namespace retina
