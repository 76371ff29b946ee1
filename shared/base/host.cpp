#include "shared/base/host.h"

#include <unistd.h>

#include <array>

namespace retina {

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

}  // namespace retina
