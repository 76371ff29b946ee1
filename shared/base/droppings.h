// What operating systems, file servers and editors leave in folders of data: never data.
#pragma once

#include <string_view>

namespace retina {

// Whether a file or folder of this name (no path) is one of them: all that begins with a dot
// (macOS's "._a.jpg", ".DS_Store", ".ipynb_checkpoints", NFS's ".nfs0001"), "Thumbs.db",
// "desktop.ini", "__MACOSX", "@eaDir", "lost+found" and their like.
bool is_dropping(std::string_view name);

}  // namespace retina
