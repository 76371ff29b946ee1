#include "shared/shard/remote_manifest.h"

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/shard/manifest.h"

namespace retina {

std::string read_manifest_text(const RemoteFolder& folder) {
  return folder.read(kManifestFile, kMostTextBytes, [](const std::string& text) {
    try {
      decode_manifest(text, kManifestFile);
      return true;
    } catch (const Error&) {
      return false;
    }
  });
}

}  // namespace retina
