// Classification over a set's images: images -> middle squares -> network, or images -> converted
// model -> outcomes. The counterpart of detect.h for models that give an image one class.
#pragma once

#include <vector>

#include "shared/comm/communicator.h"
#include "shared/evaluation/predict/detect.h"
#include "shared/evaluation/score/class_outcome.h"
#include "shared/shard/shard_set.h"

namespace retina {

class Classifier;  // shared/model/classifier.h

// Runs `network` over every image of the set, or the first `options.max_images`, exactly once, each
// rank a share; collective. Rank 0 gets all outcomes in ascending image id order, the others none.
// The network runs without gradients on the device of its parameters, in evaluation mode; its mode
// is restored. Batches are formed before ranks share them: the results do not depend on their
// number. Throws kData for a damaged record and for a network whose scores are not finite.
std::vector<ClassOutcome> classify(Classifier& network, const ShardSet& shards, Communicator& ranks,
                                   const DetectOptions& options);

// Does the same with a converted model, which takes each image at its stored size; images of equal
// size may share a batch. Scores are the model's logits, so that no small probability is rounded to
// 0. The model must have as many classes as the set. Throws kConfig for a detector or a set of
// detection, and kData, too, for an answer of another form than onnx_file.h describes.
std::vector<ClassOutcome> classify(ConvertedModel& model, const ShardSet& shards,
                                   Communicator& ranks, const DetectOptions& options);

// Runs the first half: this rank's share, in the order of its batches; not collective.
std::vector<ClassOutcome> classify_share(Classifier& network, const ShardSet& shards,
                                         Communicator& ranks, const DetectOptions& options);

}  // namespace retina
