// lib/libretina_convolution_clock.so: how long a program that has loaded LibTorch spends in
// convolutions. peer.py loads it, so that torchvision's steps are measured by what measures ours.
#include <optional>

#include "tests/support/operators/operator_log.h"

namespace {

std::optional<retina::OperatorLog> operators;

}  // namespace

extern "C" {

void retina_start_convolution_clock() {
  operators.reset();
  operators.emplace(retina::LoggedOperators::kConvolutions);
}

// Milliseconds since the start.
double retina_stop_convolution_clock() {
  const double ms = operators ? operators->convolution_ms() : 0;
  operators.reset();
  return ms;
}
}
