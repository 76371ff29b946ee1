#include "shared/evaluation/predict/trained_network.h"

#include "shared/base/error.h"

namespace retina {
namespace {

void load_trained(Network& network, const Checkpoint& checkpoint, const std::string& path) {
  load_state(network, checkpoint.model, path);
  network.set_training(false);
  const auto classes = static_cast<std::size_t>(network.config().class_count);
  if (checkpoint.categories.size() != classes) {
    throw Error(ErrorKind::kData, cat(path, ": its categories do not fit its model (got ",
                                      checkpoint.categories.size(), ", want ", classes, ")"));
  }
}

}  // namespace

void check_model_task(Task got, Task wanted, const std::string& path) {
  if (got == wanted) return;
  throw Error(ErrorKind::kConfig, cat(path, ": is a model for ", word_of(kTasks, got), " (want ",
                                      word_of(kTasks, wanted), ")"));
}

RetinaNet trained_network(const Checkpoint& checkpoint, const std::string& path) {
  const ModelConfig config = model_config_of(checkpoint.config_json, path);
  check_model_task(config.task, Task::kDetection, path);
  check_has_heads(checkpoint, path);
  RetinaNet network(config);
  load_trained(network, checkpoint, path);
  return network;
}

std::unique_ptr<Classifier> trained_classifier(const Checkpoint& checkpoint,
                                               const std::string& path) {
  const ModelConfig config = model_config_of(checkpoint.config_json, path);
  check_model_task(config.task, Task::kClassification, path);
  std::unique_ptr<Classifier> network = make_classifier(config);
  load_trained(*network, checkpoint, path);
  return network;
}

}  // namespace retina
