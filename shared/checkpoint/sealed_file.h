// Sealed zip files: the archive's comment, its last bytes, holds the xxh3 of everything before it.
// So one pass over the raw bytes finds any damage before a zip, pickle or TorchScript reader sees
// it (LibTorch's zip reader checks no CRC). Checkpoints and inference models are sealed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "shared/base/file.h"
#include "shared/base/hash.h"

namespace retina {

// Writes a zip stream into an AtomicFile and seals it. Give `write` the bytes of a finished zip in
// order, then `commit`.
class SealedFile {
 public:
  // Throws kCannotCreate.
  explicit SealedFile(const std::string& path);
  // Throws kIo.
  void write(const void* data, std::size_t size_bytes);
  // Adds the seal without publishing: the finished file lies at `temporary_path()`. Returns the
  // seal's hash.
  std::uint64_t seal();
  const std::string& temporary_path() const { return file_.temporary_path(); }
  // Publishes; `verify` gets the temporary file's path. The seal has been checked before that.
  void commit(const std::function<void(const std::string&)>& verify = {});

 private:
  AtomicFile file_;
  Hasher hasher_{};
  std::string tail_{};  // the last bytes, held back: the end record gets its comment length here
};

// Reads the whole file and checks its seal; returns the hash. Throws kNoInput, kIo, and kData when
// the seal is missing (cut short, or not `what` of ours) or wrong (damaged). `what`: "checkpoint".
std::uint64_t check_seal(const std::string& path, const std::string& what);

}  // namespace retina
