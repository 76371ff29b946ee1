#include "convert/script/inference_module.h"

#include "convert/script/script_part.h"
#include "shared/base/cat.h"

namespace retina {
namespace {

using CompilationUnit = std::shared_ptr<torch::jit::CompilationUnit>;

torch::jit::Module make_module(const CompilationUnit& unit, const std::string& name) {
  torch::jit::Module module(c10::QualifiedName("__torch__.retina." + name), unit);
  module.register_attribute("training", c10::BoolType::get(), false);
  return module;
}

void add_part(torch::jit::Module& parent, const CompilationUnit& unit, const ScriptPart& part) {
  torch::jit::Module module = make_module(unit, part.name);
  for (const auto& [name, tensor] : part.tensors) {
    module.register_parameter(name, tensor.detach().clone(), /*is_buffer=*/false);
  }
  module.define(part.source);
  parent.register_module(part.name, module);
}

void add_attributes(torch::jit::Module& module, const InferenceExtras& extras) {
  c10::List<std::string> names;
  c10::List<std::int64_t> ids;
  for (const auto& category : extras.categories) {
    names.push_back(category.name);
    ids.push_back(category.id);
  }
  module.register_attribute("category_names", c10::ListType::ofStrings(), names);
  module.register_attribute("category_ids", c10::ListType::ofInts(), ids);
  module.register_attribute("config", c10::StringType::get(), extras.config_json);
}

void add_thresholds(torch::jit::Module& module, const PostprocessOptions& options) {
  module.register_attribute("score_threshold", c10::FloatType::get(), options.score_threshold);
  module.register_attribute("nms_threshold", c10::FloatType::get(), options.nms_threshold);
  module.register_attribute("max_detections", c10::IntType::get(), options.max_detections);
}

}  // namespace

torch::jit::Module make_inference_module(const RetinaNet& model, const InferenceExtras& extras) {
  const ModelConfig& config = model.config();
  const Weights weights(state_of(model));
  const auto unit = std::make_shared<torch::jit::CompilationUnit>();
  torch::jit::Module module = make_module(unit, "RetinaNet");
  for (const ScriptPart& part :
       {input_script(config), body_script(config, weights, model.body_prefix()),
        pyramid_script(config, weights), classification_script(config, weights),
        regression_script(config, weights), anchors_script(config), suppression_script()}) {
    add_part(module, unit, part);
  }
  add_attributes(module, extras);
  add_thresholds(module, extras.postprocess);
  module.define(model_source(config, extras.postprocess));
  return module;
}

torch::jit::Module make_inference_module(const Classifier& model, const InferenceExtras& extras) {
  const ModelConfig& config = model.config();
  const Weights weights(state_of(model));
  const auto unit = std::make_shared<torch::jit::CompilationUnit>();
  torch::jit::Module module = make_module(unit, "Classifier");
  add_part(module, unit, square_input_script(config));
  for (const ScriptPart& part : classifier_parts(config, weights)) add_part(module, unit, part);
  add_attributes(module, extras);
  module.define(classifier_source(config));
  return module;
}

}  // namespace retina
