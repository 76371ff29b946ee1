// A model file of either kind, ready to detect with.
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <variant>
#include <vector>

#include "evaluate/options.h"
#include "shared/coco/results.h"
#include "shared/evaluation/detect.h"
#include "shared/evaluation/script_detect.h"
#include "shared/model/retinanet.h"
#include "shared/shard/shard_set.h"

namespace retina {

class LoadedModel {
 public:
  // Tells checkpoint and converted model apart by their content. Throws kNoInput, kIo, kData
  // (damaged, neither kind), kConfig (the classes are not those of `shards`, listing which).
  LoadedModel(const EvalOptions& options, const ShardSet& shards, const c10::Device& device);

  // "checkpoint" or "converted model".
  std::string kind() const;
  // Collective; see shared/evaluation/detect.h.
  std::vector<Detection> detect_all(const ShardSet& shards, Communicator& ranks,
                                    const DetectOptions& options);

 private:
  std::variant<RetinaNet, ScriptModel> model_;
};

// Throws Error{kConfig} naming the classes that only one of them has, or where their order differs.
void check_same_classes(const Categories& model, const Categories& data,
                        const std::string& subject);

}  // namespace retina
