// The list of operators that a converted model may use is the converter's own.
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/serialization/import.h>

#include <set>
#include <sstream>

#include "convert/script/inference_module.h"
#include "shared/base/cat.h"
#include "shared/evaluation/converted/script_operators.h"
#include "tests/convert/random_checkpoint.h"

namespace retina {
namespace {

void add_operators(const torch::jit::Block& block, std::set<std::string>& operators) {
  for (const torch::jit::Node* node : block.nodes()) {
    operators.insert(node->kind().toQualString());
    for (const torch::jit::Block* inner : node->blocks()) add_operators(*inner, operators);
  }
}

void add_operators(const torch::jit::Module& made, std::set<std::string>& operators) {
  std::stringstream file;
  made.save(file);
  const torch::jit::Module module = torch::jit::load(file);
  EXPECT_NO_THROW(check_script(module, "made"));
  for (torch::jit::Function* function : module._ivalue()->compilation_unit()->get_functions()) {
    add_operators(*torch::jit::toGraphFunction(*function).graph()->block(), operators);
  }
}

TEST(InferenceOperators, AreThoseOfTheModelsThatTheConverterMakes) {
  std::set<std::string> used;
  for (const char* backbone : {"resnet18", "resnet34", "resnet50", "resnet101", "resnet152"}) {
    for (const bool second_version : {false, true}) {
      ModelConfig config = small_config();
      config.backbone = backbone;
      config.norm = second_version ? Norm::kBatch : Norm::kFrozen;
      config.head_norm = second_version ? HeadNorm::kGroup : HeadNorm::kNone;
      config.p6_from_c5 = second_version;
      config.anchor_offset = second_version ? 0.5 : 0.0;
      SCOPED_TRACE(cat(backbone, second_version ? " v2" : " v1"));
      add_operators(make_inference_module(RetinaNet(config), {}), used);
    }
    SCOPED_TRACE(cat("classifier ", backbone));
    const auto classifier = make_classifier(small_classifier_config(backbone));
    add_operators(make_inference_module(*classifier, {}), used);
  }
  add_operators(make_inference_module(*make_classifier(small_classifier_config("cifar-cnn")), {}),
                used);
  const auto allowed = script_operators();
  EXPECT_EQ(used, std::set<std::string>(allowed.begin(), allowed.end()));
}

}  // namespace
}  // namespace retina
