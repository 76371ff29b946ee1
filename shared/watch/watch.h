// Never hang: a thread in every rank, independent of MPI, tells rank 0 four times a second what the
// rank is doing, and rank 0 tells all. A rank that died, stopped, was cut off, left early, calls a
// different collective from the others or stalls ends the whole job with one line that names it.
//
// Rank 0's thread is the hub: every other rank, a spoke, has one TCP connection to it. The hub
// watches the spokes, the spokes watch the hub; so each side of a cut network ends by itself.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "shared/comm/activity.h"
#include "shared/comm/communicator.h"
#include "shared/watch/failure_detector.h"

namespace retina {

// What the program does for its watch. Called on the watch thread, while the main thread may be
// stuck in MPI or in a disk.
struct WatchHandler {
  // Logs the diagnosis: of all ranks that can talk to each other, one is asked.
  std::function<void(const std::string& message, const std::string& hint)> report;
  std::function<void(const std::string& message)> warn;
  // Ends the launcher, which waits for a node that is cut off.
  std::function<void()> end_launcher;
  // Ends this process with `code`, without MPI.
  std::function<void(int code)> end;
};

class Watch {
 public:
  // Collective. Nothing for a single rank, and where the ranks cannot reach each other by TCP: rank
  // 0 then warns.
  static std::unique_ptr<Watch> start(Communicator& communicator, const WatchOptions& options,
                                      const WatchHandler& handler);
  // Stops the thread: the normal end.
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  Activity& activity();
  // This rank calls no more collectives; returns when that holds for every rank. Before
  // MPI_Finalize: a process that ends while others are in there can leave mpirun of Open MPI 4.1
  // hanging (PMIx 4.2 locks itself out in PMIx_server_finalize).
  void leave();
  // This rank's program ends with an error that it has reported: the others end silently. To be
  // called before MPI_Abort; when that does not end the process within 5 s, the watch does.
  void fail(int code);
  // A collective has failed: another rank is the cause. Waits for the diagnosis, which ends this
  // process; returns when there is none within the limits.
  void await_diagnosis();

 private:
  struct Parts;
  explicit Watch(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace retina
