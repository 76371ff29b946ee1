#include "shared/base/mount.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>

#include "shared/base/descriptor.h"
#include "shared/base/error.h"
#include "shared/base/log.h"

namespace retina {
namespace {

struct Consequence {
  const char* lack;
  const char* meaning;
};

// Consequences, indexed by MountAbility.
constexpr std::array<Consequence, 4> kConsequences = {
    {{"cannot sync folders", "after a power cut the newest file may be missing"},
     {"cannot sync files", "after a power cut the newest file may be cut short"},
     {"has no locks", "do not start two jobs on this folder"},
     {"cannot map files into memory", "shards are copied to the local disk as they are used"}}};

}  // namespace

bool means_unsupported(int code) {
  constexpr std::array kKnown = {EINVAL, ENOTSUP, EOPNOTSUPP, ENOSYS, ENODEV, ENOLCK};
  return std::find(kKnown.begin(), kKnown.end(), code) != kKnown.end();
}

void warn_unsupported(MountAbility ability, const std::string& path, int code) {
  static std::array<std::atomic<bool>, kConsequences.size()> warned{};
  const auto number = static_cast<std::size_t>(ability);
  if (warned.at(number).exchange(true)) return;
  const Consequence& what = kConsequences.at(number);
  log_warning(path, ": this file system ", what.lack, " (", std::strerror(code), "); ",
              what.meaning);
}

std::string network_file_system(const std::string& path) {
  // Magic numbers from statfs(2), the last three from their projects.
  static const std::map<std::uint32_t, const char*> kKinds = {
      {0x6969, "NFS"},      {0x517B, "SMB"},       {0xFE534D42, "SMB"},  {0xFF534D42, "CIFS"},
      {0x65735546, "FUSE"}, {0x01021997, "9P"},    {0x00C36400, "Ceph"}, {0x0BD00BD0, "Lustre"},
      {0x47504653, "GPFS"}, {0x19830326, "BeeGFS"}};
  struct statfs status {};
  if (::statfs(path.c_str(), &status) != 0) return "";
  const auto found = kKinds.find(static_cast<std::uint32_t>(status.f_type));
  return found == kKinds.end() ? "" : found->second;
}

bool can_map_files(const std::string& folder) {
  constexpr std::size_t kBytes = 1;
  std::string name = folder + "/retina-probe-XXXXXX";
  const Descriptor file(::mkostemp(name.data(), O_CLOEXEC));
  if (!file) {
    throw Error(ErrorKind::kCannotCreate,
                cat(folder, ": cannot be written (", std::strerror(errno), ")"),
                "choose another --output or fix its permissions");
  }
  void* const map = ::ftruncate(file.get(), kBytes) == 0
                        ? ::mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, file.get(), 0)
                        : MAP_FAILED;
  const int code = errno;
  if (map != MAP_FAILED) ::munmap(map, kBytes);
  ::unlink(name.c_str());
  // Any other problem is left to the caller, which describes it better.
  return map != MAP_FAILED || !means_unsupported(code);
}

}  // namespace retina
