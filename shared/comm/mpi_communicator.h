// The MPI back end's constructor, seen by the factory only.
#pragma once

#include <memory>

#include "shared/comm/communicator.h"

namespace retina {

// MPI_COMM_WORLD; MPI must be initialised.
std::unique_ptr<Communicator> make_mpi_communicator();

}  // namespace retina
