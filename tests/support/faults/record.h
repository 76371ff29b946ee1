// The order of all calls that change a disk, for a power cut to be replayed (tests/mounts): with
// the rule "any=record path=P", $RETINA_FAULTS_RECORD names a file that gets every call that was
// done on a file below P, a line each,
//
//   CALL INODE OFFSET SIZES        of the path, of the path renamed to, of the bytes that follow
//
// with the calls of rules.h, and mkdir.
#pragma once

#include <sys/types.h>

#include <string>

namespace faults {

struct Call {
  const char* call = "";
  std::string path{}, to{};
  int descriptor = -1;  // of the file; -1: known by its path
  off_t offset = 0;     // of a write; the size that is left of a file that is cut
  std::string bytes{};
};

// Whether anything is recorded at all.
bool records();

// Call after the call was done; keeps errno.
void record(const Call& call);

}  // namespace faults
