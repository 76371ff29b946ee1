// The functions that the programs use of Open MPI. libretina_mpi.so implements them; it alone links
// libmpi and is opened if a launcher asks for ranks: one rank needs no Open MPI on the machine.
#pragma once

#include <memory>
#include <string>

#include "shared/comm/communicator.h"

namespace retina {

class MpiLibrary {
 public:
  virtual ~MpiLibrary() = default;

  // Calls MPI_Init_thread. Throws Error{kUnavailable}.
  virtual void start() = 0;
  // Returns a communicator over all ranks; call it after start().
  virtual std::unique_ptr<Communicator> make_communicator() = 0;
  // Calls MPI_Finalize or MPI_Abort.
  virtual void finish() = 0;
  virtual void abort(int code) = 0;
  // Returns name and version; needs no start().
  virtual std::string version() = 0;
};

// Type of retina_mpi_library() in libretina_mpi.so.
using GetMpiLibrary = MpiLibrary* (*)();

}  // namespace retina
