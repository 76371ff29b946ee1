// A shard on a mount that cannot map files into memory (FUSE with direct_io): LMDB needs it on the
// local disk. The copy has no name, so that nothing is left behind however the process ends.
#pragma once

#include <string>

namespace retina {

class StagedFile {
 public:
  // Copies `source` to the file system of `folder`, which is created if needed. Throws kNoInput,
  // kIo (too little free space, reading or writing failed), kCannotCreate.
  StagedFile(const std::string& source, const std::string& folder);
  ~StagedFile();
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;

  // A name to open it by while this object lives.
  std::string path() const;

 private:
  int descriptor_ = -1;
};

}  // namespace retina
