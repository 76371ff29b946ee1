// `retina-eval --compare A B`: compares two evaluations of the same images. No LibTorch.
#pragma once

#include "evaluate/options.h"
#include "shared/cli/cli.h"

namespace retina {

// Reads both evaluations and their ground truth, compares, writes compare.html and compare.json,
// prints the tables. Returns the exit code. Throws kNoInput (missing, not a finished evaluation),
// kData (content, detections on unknown images), kConfig (the two were evaluated on different
// ground truth, or a file has changed since), kUsage (no ground truth is known).
int compare_evaluations(const EvalOptions& options, const Cli& cli);

}  // namespace retina
