// The machine that this process runs on.
#pragma once

#include <string>

namespace retina {

// This machine's name, as the launcher's host file has it.
std::string host_name();

}  // namespace retina
