// How long ranks wait for one another.
#pragma once

#include <string>

namespace retina {

// Limits in seconds, such that a lost rank ends the job within 10 s of the fault.
struct WatchOptions {
  double period_s = 0.25;          // between two heartbeats of a rank
  double heartbeat_limit_s = 5;    // silent for longer: dead, stopped or cut off
  double straggler_warning_s = 5;  // others wait for longer: a warning names the rank
  // Others wait for longer: the job ends; never below `stall_steps` times the median step. Before
  // enough steps for a median, five times it.
  double stall_timeout_s = 60;
  double stall_steps = 10;
  // The same outside steps: one rank reads its inputs or scores a validation, the others wait; or
  // one does not end its work and the others have.
  double outside_timeout_s = 1800;
  double start_limit_s = 120;  // for MPI to start: slow disks load the program on some nodes
  double join_limit_s = 60;    // then for the ranks to find each other
  double finish_limit_s = 60;  // for MPI to end once every rank has ended its work
  // A whole node is silent: the launcher has until then, since the node was heard, to end the job.
  // mpirun notices by TCP keepalive, but not while something that it sent to the node is not
  // acknowledged: then it waits for a quarter of an hour. Ranks that end before it make it send.
  double launcher_limit_s = 8.5;
  // A rank that is not the first to report the diagnosis gives that one this long to end the job.
  double second_s = 2.5;
  // On each node, where its ranks agree who reports; empty: the launcher's own for this job.
  std::string folder{};
};

}  // namespace retina
