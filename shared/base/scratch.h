// `--scratch DIR`: large files are built on a local disk and then delivered to an output that may
// be a slow or poor mount (blobfuse, SMB).
#pragma once

#include <cstdint>
#include <string>

namespace retina {

// A place of its own below --scratch for one output; what a killed job left there is removed first.
class Scratch {
 public:
  // Nothing is built elsewhere.
  Scratch() = default;
  // `folder` empty: as above. Call with `output` locked: two jobs on it would share the place.
  // Throws kCannotCreate.
  Scratch(const std::string& folder, const std::string& output);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // Where to build the file that goes to `path`: a file of this name here, or `path` itself.
  std::string build_path(const std::string& path) const;

 private:
  std::string place_{};  // empty: none
};

// The default folder for copies: $TMPDIR or /tmp.
std::string default_scratch();

}  // namespace retina
