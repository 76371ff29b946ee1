// Classification with a converted model: the outcome of each image of a data set.
#pragma once

#include <vector>

#include "shared/comm/communicator.h"
#include "shared/evaluation/predict/converted_model.h"
#include "shared/evaluation/predict/detect.h"
#include "shared/evaluation/score/class_outcome.h"
#include "shared/shard/shard_set.h"

namespace retina {

// Runs `model` over every image of a classification set exactly once, at its stored size, each
// rank a share; collective. Rank 0 gets all outcomes, in ascending image id order, the others none.
// Scores are the model's logits, so that no small probability is rounded to 0. Images of equal
// size may share a batch. `options.postprocess` is not used, `options.precision` must be kFp32, the
// model must have as many classes as the set. Throws kConfig for a detector, and kData: a damaged
// record, an answer of another form than onnx_file.h describes, scores that are not finite.
std::vector<ClassOutcome> classify(ConvertedModel& model, const ShardSet& shards,
                                   Communicator& ranks, const DetectOptions& options);

// Its first half: this rank's share, in the order of its batches; not collective.
std::vector<ClassOutcome> classify_share(ConvertedModel& model, const ShardSet& shards,
                                         Communicator& ranks, const DetectOptions& options);

}  // namespace retina
