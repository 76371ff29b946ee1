#include "shared/model/body.h"

#include "shared/base/error.h"
#include "shared/model/network_shape.h"

namespace retina {

std::unique_ptr<Body> make_body(const ModelScope& scope, const ModelConfig& config) {
  switch (family_of(config.backbone)) {
    case BackboneFamily::kResNet:
      return make_resnet(scope, config);
    case BackboneFamily::kRegNet:
      return make_regnet(scope, config);
    case BackboneFamily::kMobileNetV3:
      return make_mobilenet(scope, config);
  }
  RETINA_CHECK(false, config.backbone);
  return nullptr;
}

}  // namespace retina
