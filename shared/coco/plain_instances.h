// The quick reader of instances files: it reads the form that every program writes, and leaves
// everything else, and all errors, to the reader of instances.cpp.
#pragma once

#include <optional>
#include <string>

#include "shared/coco/instances.h"

namespace retina {

// What the file says, its references not checked. Nothing when it holds anything but an object with
// the three lists once each, values of their own types and, where nobody reads them, any JSON value
// whose strings are ASCII.
std::optional<Instances> parse_plain_instances(const std::string& text);

}  // namespace retina
