#include "shared/shard/staged_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/file.h"

namespace retina {
namespace {

void write_all(int descriptor, std::string_view bytes, const std::string& folder) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(descriptor, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) {
      throw Error(ErrorKind::kIo,
                  cat(folder, ": copying a shard here failed (", std::strerror(errno), ")"),
                  "free some space, or choose another --scratch");
    }
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
}

}  // namespace

StagedFile::StagedFile(const std::string& source, const std::string& folder) {
  make_folder(folder, "--scratch");
  require_space(folder, static_cast<double>(file_size_bytes(source)), "--scratch");
  std::string name = folder + "/retina-shard-XXXXXX";
  descriptor_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor_ < 0) {
    throw Error(ErrorKind::kCannotCreate,
                cat(folder, ": cannot be written (", std::strerror(errno), ")"),
                "choose another --scratch or fix its permissions");
  }
  ::unlink(name.c_str());
  try {
    read_pieces(source, [&](std::string_view bytes) { write_all(descriptor_, bytes, folder); });
  } catch (...) {
    ::close(std::exchange(descriptor_, -1));
    throw;
  }
}

StagedFile::~StagedFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::string StagedFile::path() const {
  return cat("/proc/self/fd/", descriptor_);
}

}  // namespace retina
