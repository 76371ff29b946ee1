// Limits on the time that ranks wait for one another.
#pragma once

#include <string>

namespace retina {

// Limits in seconds. A rank whose process or connection ends is lost at once; one that stands still
// ends the job after the stall timeout.
struct WatchOptions {
  double period_s = 0.25;          // between two heartbeats of a rank
  double straggler_warning_s = 5;  // silent, or others wait for it, for longer: a warning names it
  // Silence (stopped, cut off, frozen), or a wait of others in steps, after which the job ends.
  // Clouds freeze a machine for up to 30 s to move it. An alive rank has `stall_steps` times the
  // median step at least; before enough steps for a median, five times this.
  double stall_timeout_s = 60;
  double stall_steps = 10;
  // Least limit of an alive rank outside steps: one rank reads its inputs or scores a validation,
  // and the others wait; or one does not end its work, and the others have.
  double outside_timeout_s = 1800;
  double start_limit_s = 120;  // for MPI to start: slow disks load the program on some nodes
  double join_limit_s = 60;    // then for the ranks to find each other
  double finish_limit_s = 60;  // for MPI to end once every rank has ended its work
  // Time that the launcher has to end the job after a whole node is given up. mpirun notices by TCP
  // keepalive, but not while something that it sent to the node is not acknowledged: then it waits
  // for a quarter of an hour. Ranks that end before it make it send.
  double launcher_limit_s = 3.5;
  // Time that a rank gives an earlier reporter of the diagnosis to end the job.
  double second_s = 2.5;
  // Folder on each node in which its ranks agree who reports; empty: the launcher's own for this
  // job.
  std::string folder{};
};

}  // namespace retina
