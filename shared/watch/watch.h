// Never hang: a thread in every rank, independent of MPI, sends the rank's activity to rank 0 four
// times a second, and rank 0 sends its own to all. A rank that died, stopped, was cut off, left
// early, calls a different collective from the others or stalls ends the whole job with one line
// that names it.
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

// Functions of the program for its watch. Called on the watch thread, while the main thread may be
// stuck in MPI or in a disk.
struct WatchHandler {
  // Logs the diagnosis: called on one of all ranks that can communicate.
  std::function<void(const std::string& message, const std::string& hint)> report;
  std::function<void(const std::string& message)> warn;
  // Ends the launcher, which waits for a node that is cut off.
  std::function<void()> end_launcher;
  // Ends this process with `code`, without MPI.
  std::function<void(int code)> end;
};

class Watch {
 public:
  // Starts a watch; collective. Returns nothing for a single rank, and if the ranks cannot reach
  // each other by TCP: rank 0 then warns.
  static std::unique_ptr<Watch> start(Communicator& communicator, const WatchOptions& options,
                                      const WatchHandler& handler);
  // Stops the thread at a normal end.
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  Activity& activity();
  // Announces that this rank calls no more collectives; returns once that holds for every rank.
  // Call it before MPI_Finalize: a process that ends while others are in there can leave mpirun of
  // Open MPI 4.1 hanging (PMIx 4.2 deadlocks in PMIx_server_finalize).
  void leave();
  // Announces that this rank's program ends with an error that it has reported: the others end
  // silently. Call it before MPI_Abort; if that does not end the process within 5 s, the watch
  // does.
  void fail(int code);
  // Waits for the diagnosis of a failed collective, whose cause is another rank; the diagnosis ends
  // this process. Returns if there is none within the limits.
  void await_diagnosis();

 private:
  struct Parts;
  explicit Watch(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace retina
