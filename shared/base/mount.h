// What file systems behind FUSE, SMB or NFS may not be able to do. Each missing ability costs one
// warning per process, not the job.
#pragma once

#include <string>

namespace retina {

enum class MountAbility { kFolderSync, kFileSync, kLocks, kMemoryMap };

// True when `code` (an errno) says "not possible here" rather than "failed".
bool means_unsupported(int code);

// Warns the first time that this ability is missing; `path` is where.
void warn_unsupported(MountAbility ability, const std::string& path, int code);

// What kind of network or user-space file system holds `path` ("NFS", "FUSE"), by statfs(2); empty
// for any other, and where it does not say.
std::string network_file_system(const std::string& path);

// Tries it with an unnamed file. Throws kCannotCreate when the folder cannot be written.
bool can_map_files(const std::string& folder);

}  // namespace retina
