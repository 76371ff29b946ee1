// Runs retina-train from command line to exit code.
#pragma once

namespace retina {

int retina_train(int argc, const char* const* argv);

}  // namespace retina
