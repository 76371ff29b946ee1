// The rules of RETINA_FAULTS: which call of a program on which file goes wrong, and how.
//
// Rules are separated by ';'. A rule is CALL=EFFECT and KEY=VALUE words:
//
//   CALL    open (to write, create, make a folder)  write  read  read-at (pread)  fsync
//           fsync-folder  mmap  lock  rename  rename-over (the target exists)
//           rename-across (two folders)  unlink  cut  space (statvfs)  type (statfs)
//           any (all that change a disk: open write fsync fsync-folder rename unlink cut)
//   EFFECT  an errno's name; short (a write takes half); slow (the call takes longer); kill (before
//           the call); tear (after it, a write after its first half); vanish (first P is renamed to
//           P.gone); unmount (as vanish, and an empty folder takes its place); flip (a bit of what
//           was read); free (space: `bytes` are left); nfs (type: a network mount); count
//           (nothing); record (record.h)
//   path=P  only files below P          after=N  let N such calls pass     times=N  then N faults
//   every=N only each N-th such call    bytes=N  a write fails when N bytes have been written
//
// Example: "write=ENOSPC path=/out bytes=100000; fsync-folder=EINVAL". $RETINA_FAULTS_SEEN names a
// file that gets, at the end, how many calls the first rule saw and how many it broke.
#pragma once

#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

namespace faults {

struct Rule {
  std::string call{}, effect{}, path{};
  long after = 0, times = -1, every = 1, bytes = -1;
  int code = 0;  // of the errno
  std::atomic<long> seen{0}, done{0}, written{0};
};

const std::vector<Rule*>& rules();

// The rule that fires at this call, or nullptr; counts the call.
Rule* firing(const std::string& call, const std::string& path);

// The full-disk rule that this write would break, or nullptr.
Rule* filling(const std::string& path, std::size_t size);

}  // namespace faults
