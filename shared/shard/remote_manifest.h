// manifest.json of a data set behind a URL.
#pragma once

#include <string>

#include "shared/remote/remote_folder.h"

namespace retina {

// Its text, for decode_manifest(). A text that this refuses is asked for again, as not every
// response tells its length; damage at the source is damage then. Throws as RemoteFolder::read.
std::string read_manifest_text(const RemoteFolder& folder);

}  // namespace retina
