// `retina-eval --compare A B`: compares two evaluations of the same images. No LibTorch.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "evaluate/evaluation_folder.h"
#include "evaluate/options.h"
#include "shared/base/cli.h"
#include "shared/evaluation/compare/comparison.h"

namespace retina {

// Reads both evaluations and their ground truth, compares, writes compare.html and compare.json,
// prints the tables. Returns the exit code. Throws kNoInput (missing, not a finished evaluation),
// kData (content, detections on unknown images), kConfig (the two were evaluated on different
// ground truth, or a file has changed since), kUsage (no ground truth is known).
int compare_evaluations(const EvalOptions& options, const Cli& cli);

// Does the same for two classifiers, from the predictions of both folders of options.compare. These
// hold the true classes: the shards are not needed. Throws kConfig (other images or classes), kData
// (content), kUsage (ground truth was given, which has no effect).
int compare_classifiers(const EvalOptions& options, const Cli& cli,
                        const std::array<StoredEvaluation, 2>& stored);

// The texts of a comparison: compare.json, the tables for a terminal, notes for the reader.
struct ComparisonTexts {
  std::string json{}, tables{};
  std::vector<std::string> notes{};
};

// Returns the names with the relative paths from the comparison's page in `output` to the pages of
// both sides.
ComparedNames with_pages(ComparedNames names, const std::string& output);

// Writes compare.html and compare.json and prints the tables. Throws kIo.
void publish_comparison(const EvaluationFolder& folder, const Cli& cli, const ComparedNames& names,
                        const ComparisonTexts& texts);

}  // namespace retina
