#include "shared/model/device.h"

namespace retina {

std::string only_gpu() {
  return "";
}

}  // namespace retina
