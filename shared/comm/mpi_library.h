// What the programs need of Open MPI. libretina_mpi.so has it, which alone links libmpi and is
// opened when a launcher asks for ranks: one rank needs no Open MPI on the machine.
#pragma once

#include <memory>
#include <string>

#include "shared/comm/communicator.h"

namespace retina {

class MpiLibrary {
 public:
  virtual ~MpiLibrary() = default;

  // MPI_Init_thread. Throws Error{kUnavailable}.
  virtual void start() = 0;
  // Over all ranks; after start().
  virtual std::unique_ptr<Communicator> make_communicator() = 0;
  // MPI_Finalize and MPI_Abort.
  virtual void finish() = 0;
  virtual void abort(int code) = 0;
  // Name and version; needs no start().
  virtual std::string version() = 0;
};

// retina_mpi_library() of libretina_mpi.so.
using GetMpiLibrary = MpiLibrary* (*)();

}  // namespace retina
