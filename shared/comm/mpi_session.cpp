#include <mpi.h>

#include <array>
#include <cstdlib>
#include <initializer_list>

#include "shared/base/error.h"
#include "shared/comm/communicator.h"
#include "shared/comm/mpi_communicator.h"

namespace retina {

namespace {

// The first of `names` that the launcher has set; -1 without one.
int launcher_number(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const char* text = std::getenv(name)) return std::atoi(text);
  }
  return -1;
}

}  // namespace

int launcher_rank() {
  // Open MPI's mpirun, any PMIx launcher (srun --mpi=pmix), PMI-1/2 launchers.
  return launcher_number({"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"});
}

int launcher_local_rank() {
  // Open MPI's mpirun, srun, Hydra.
  return launcher_number({"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", "MPI_LOCALRANKID"});
}

bool launched_as_rank() {
  return launcher_rank() >= 0;
}

MpiSession::MpiSession() {
  if (!launched_as_rank()) return;
  // A ring also for what is too small for ours (mpi_ring.h): Open MPI's own choice changes the
  // algorithm with size and version, and the bits with it. What the user has set wins.
  setenv("OMPI_MCA_coll_tuned_use_dynamic_rules", "1", 0);
  setenv("OMPI_MCA_coll_tuned_allreduce_algorithm", "4", 0);
  // Two ranks are each other's neighbour on both sides, and over TCP Open MPI 4.1's one connection
  // between them then carries one direction at a time: measured 26 of 50 MB/s, with two 48.
  const char* ranks = std::getenv("OMPI_COMM_WORLD_SIZE");
  if (ranks != nullptr && std::atoi(ranks) == 2) setenv("OMPI_MCA_btl_tcp_links", "2", 0);
  int provided = 0;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS ||
      provided < MPI_THREAD_SERIALIZED) {
    throw Error(ErrorKind::kUnavailable, "MPI cannot be initialised with thread support",
                "start the program with Open MPI 4.1's mpirun");
  }
  active_ = true;
}

void MpiSession::finish() {
  if (active_) MPI_Finalize();
  active_ = false;
}

void MpiSession::abort(int code) {
  if (active_) MPI_Abort(MPI_COMM_WORLD, code);
}

std::unique_ptr<Communicator> make_communicator(const MpiSession& session) {
  return session.active() ? make_mpi_communicator() : make_self_communicator();
}

std::string mpi_library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string version = text.data();
  return version.substr(0, version.find(','));
}

}  // namespace retina
