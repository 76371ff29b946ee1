// A communicator that reports its calls to a watch, which then finds the cause of failures, and to
// whoever listens to the activity.
#pragma once

#include <memory>

#include "shared/comm/communicator.h"
#include "shared/watch/watch.h"

namespace retina {

// `watch` outlives the result. Costs about a microsecond a collective.
std::unique_ptr<Communicator> make_watched_communicator(std::unique_ptr<Communicator> inner,
                                                        Watch& watch);

// For a job that nobody watches, such as a single rank: with an activity of its own.
std::unique_ptr<Communicator> make_unwatched_communicator(std::unique_ptr<Communicator> inner);

}  // namespace retina
