// retina-eval from command line to exit code.
#pragma once

namespace retina {

int retina_eval(int argc, const char* const* argv);

}  // namespace retina
