#include "shared/evaluation/trained_network.h"

#include "shared/base/error.h"
#include "shared/base/json.h"

namespace retina {
namespace {

ModelConfig model_config(const std::string& config_json, const std::string& path) {
  const JsonFile config = JsonFile::parse(config_json, path + ": config");
  return ModelConfig::from_json(config.root().at("model"));
}

void load(Network& network, const Checkpoint& checkpoint, const std::string& path) {
  load_state(network, checkpoint.model, path);
  network.set_training(false);
  const auto classes = static_cast<std::size_t>(network.config().class_count);
  if (checkpoint.categories.size() != classes) {
    throw Error(ErrorKind::kData, cat(path, ": its categories do not fit its model (got ",
                                      checkpoint.categories.size(), ", want ", classes, ")"));
  }
}

}  // namespace

RetinaNet trained_network(const Checkpoint& checkpoint, const std::string& path) {
  check_has_heads(checkpoint, path);
  RetinaNet network(model_config(checkpoint.config_json, path));
  load(network, checkpoint, path);
  return network;
}

std::unique_ptr<Classifier> trained_classifier(const Checkpoint& checkpoint,
                                               const std::string& path) {
  std::unique_ptr<Classifier> network = make_classifier(model_config(checkpoint.config_json, path));
  load(*network, checkpoint, path);
  return network;
}

Task task_of_checkpoint(const std::string& config_json, const std::string& path) {
  return model_config(config_json, path).task;
}

}  // namespace retina
