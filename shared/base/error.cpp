#include "shared/base/error.h"

namespace retina {

void fail_internal(const char* expression, const char* file, int line, const std::string& detail) {
  throw Error(
      ErrorKind::kInternal,
      cat(file, ":", line, ": check failed: ", expression, detail.empty() ? "" : ": ", detail),
      "this is a bug in retina-batch; please report it with the command that you ran");
}

}  // namespace retina
