#include "shared/model/body.h"

#include "shared/base/error.h"
#include "shared/model/mobilenet.h"
#include "shared/model/network_shape.h"
#include "shared/model/regnet.h"
#include "shared/model/resnet.h"

namespace retina {

std::unique_ptr<Body> make_body(const ModelScope& scope, const ModelConfig& config) {
  switch (family_of(config.backbone)) {
    case BackboneFamily::kResNet:
      return std::make_unique<ResNet>(scope, config);
    case BackboneFamily::kRegNet:
      return std::make_unique<RegNet>(scope, config);
    case BackboneFamily::kMobileNetV3:
      return std::make_unique<MobileNetV3>(scope, config);
  }
  RETINA_CHECK(false, config.backbone);
  return nullptr;
}

}  // namespace retina
