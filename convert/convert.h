// retina-convert: a checkpoint becomes a self-contained ONNX inference model.
#pragma once

#include <string>

#include "convert/options.h"

namespace retina {

// Loads, converts, writes to a temporary file, verifies that it equals the checkpoint, publishes;
// then writes the repository that the options ask for. Returns the text to print: one line when the
// output already exists, from the same inputs. Throws kNoInput, kData (checkpoint), kConfig (the
// output exists and was made differently; the message lists what differs), kAnswerNo (the
// verification failed), kCannotCreate, kIo, kUnavailable (device).
std::string convert(const ConvertOptions& options);

}  // namespace retina
