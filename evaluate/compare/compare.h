// `retina-eval --compare A B`: compares two evaluations of the same images. No LibTorch.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "evaluate/compare/comparison.h"
#include "evaluate/evaluation_folder.h"
#include "evaluate/options.h"
#include "shared/base/cli.h"

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

// A comparison that is about to be made.
struct PlannedComparison {
  EvalIdentity identity{};
  std::vector<std::string> inputs{};  // files that it reads
  std::string truth{};                // path of the ground truth
  const char* metric = "";            // the headline's name
  std::function<ComparisonTexts(const ComparedNames& names)> compare{};
};

// Compares, unless the output folder holds the result already, writes compare.html and compare.json
// and prints the tables. Returns the exit code. Throws kIo, and as EvaluationFolder::begin().
int publish_comparison(const EvalOptions& options, const Cli& cli, const PlannedComparison& plan);

}  // namespace retina
