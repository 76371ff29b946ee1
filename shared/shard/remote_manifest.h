// manifest.json of a data set behind a URL.
#pragma once

#include <string>

#include "shared/remote/remote_folder.h"

namespace retina {

// Reads its text, for decode_manifest(). A text that this refuses is requested again, as not every
// response states its length; a persistent fault is damage at the source. Throws as
// RemoteFolder::read.
std::string read_manifest_text(const RemoteFolder& folder);

}  // namespace retina
