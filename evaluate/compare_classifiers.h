// `retina-eval --compare A B` of two classifiers' evaluations, from their predictions. No LibTorch.
#pragma once

#include <array>

#include "evaluate/evaluation_folder.h"
#include "evaluate/options.h"
#include "shared/base/cli.h"

namespace retina {

// Reads the predictions of both folders of options.compare, compares, writes compare.html and
// compare.json, prints the tables; returns the exit code. The true classes are in the predictions:
// the shards are not needed. Throws kConfig (other images or classes), kData (content), kUsage
// (ground truth was given, which has no effect).
int compare_classifiers(const EvalOptions& options, const Cli& cli,
                        const std::array<StoredEvaluation, 2>& stored);

}  // namespace retina
