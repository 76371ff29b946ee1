// What the tests of conversions share.
#pragma once

#include <ATen/Parallel.h>

#include "convert/convert.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"

namespace retina {

// Tests run side by side; more threads than cores spin on each other.
inline const bool kOneThread = (at::set_num_threads(1), true);

// From c.pt to m.onnx in `folder`, verified on one image.
inline ConvertOptions options_in(const TestFolder& folder) {
  ConvertOptions options;
  options.checkpoint = folder / "c.pt";
  options.output = folder / "m.onnx";
  options.verification_image_count = 1;
  return options;
}

// What convert() says when it refuses.
inline std::string refusal(const ConvertOptions& options, ErrorKind kind) {
  return refusal_of(kind, [&] { convert(options); });
}

}  // namespace retina
