// Abilities that file systems behind FUSE, SMB or NFS may lack. Each missing one costs one warning
// per process, not the job.
#pragma once

#include <string>

namespace retina {

enum class MountAbility { kFolderSync, kFileSync, kLocks, kMemoryMap };

// Returns true if `code` (an errno) says "not possible here" rather than "failed".
bool means_unsupported(int code);

// Warns the first time that this ability is missing, naming `path`.
void warn_unsupported(MountAbility ability, const std::string& path, int code);

// Returns the kind of network or user-space file system that holds `path` ("NFS", "FUSE"), by
// statfs(2); empty for any other, and if it is not known.
std::string network_file_system(const std::string& path);

// Tries to map an unnamed file. Throws kCannotCreate if the folder cannot be written.
bool can_map_files(const std::string& folder);

}  // namespace retina
