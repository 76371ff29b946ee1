#include "shared/evaluation/trained_network.h"

#include "shared/base/error.h"
#include "shared/base/json.h"

namespace retina {

RetinaNet trained_network(const Checkpoint& checkpoint, const std::string& path) {
  check_has_heads(checkpoint, path);
  const JsonFile config = JsonFile::parse(checkpoint.config_json, path + ": config");
  RetinaNet network(ModelConfig::from_json(config.root().at("model")));
  load_state(network, checkpoint.model, path);
  network.set_training(false);
  const auto classes = static_cast<std::size_t>(network.config().class_count);
  if (checkpoint.categories.size() != classes) {
    throw Error(ErrorKind::kData, cat(path, ": its categories do not fit its model (got ",
                                      checkpoint.categories.size(), ", want ", classes, ")"));
  }
  return network;
}

}  // namespace retina
