// The frame of a main() that runs alone or as one of several ranks: command line, MPI, errors.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "shared/cli/cli.h"
#include "shared/comm/communicator.h"
#include "shared/watch/watch_options.h"

namespace retina {

// Parses, starts MPI if a launcher started this process, calls `body` and returns its exit code. A
// wrong command line or a missing Open MPI is reported by rank 0 alone; a fault of other nodes
// only, by the first rank of each. If `body` throws, the error is printed and the whole job ends
// with its code: other ranks may be waiting in a collective. Ranks above 0 log warnings and errors
// only, under "name[rank]"; with --log-level debug everything.
//
// Several ranks watch each other with the limits of `watch`, which the command line may fill: if
// one dies, stops, is cut off, leaves early or diverges, one line names it and every rank ends with
// 76, whatever MPI does.
int run_rank_program(const std::string& name, Cli& cli, int argc, const char* const* argv,
                     const std::function<int(Communicator&)>& body, const WatchOptions& watch = {});

// Calls `first` on rank 0, then on all others, so that a fault of the inputs is reported once, not
// by every rank. Collective.
template <class F>
void root_first(Communicator& communicator, const F& first) {
  if (!communicator.is_root()) communicator.barrier();
  first();
  if (communicator.is_root()) communicator.barrier();
}

// Throws Error{kConfig} if the number of ranks in the job is not `expected`; 0 accepts any. A
// launcher that misses its host file starts every rank alone, or all on one node.
void check_rank_count(int expected, const Communicator& communicator);

// Returns the process that started this rank, mpirun or Open MPI's daemon on another node: the
// nearest ancestor that is a launcher of Open MPI; 0 without one. `proc` is for tests.
pid_t launcher_process(const std::string& proc = "/proc");

// Returns the CPU threads for a rank: `wanted`, or with 0 usable_cores() over ranks_on_cores().
int threads_of_rank(int wanted, const Communicator& communicator);

}  // namespace retina
