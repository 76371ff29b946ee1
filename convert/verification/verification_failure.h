// How a proof fails.
#pragma once

#include <string>

#include "shared/base/error.h"

namespace retina {

// Throws Error{kAnswerNo} about the model that was to be `output`.
[[noreturn]] inline void fail_verification(const std::string& output, const std::string& problem) {
  throw Error(ErrorKind::kAnswerNo,
              cat(output, ": the proof failed, nothing was written: ", problem),
              "the checkpoint's weights may be extreme; please report it with the checkpoint");
}

}  // namespace retina
