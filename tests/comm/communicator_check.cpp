// Run by ctest under mpirun: the MPI back end keeps the rules of conformance.h. With names of
// rules, these only; with "bound" before them, each rank on one core of those that it may have.
// Prints what broke and ends with 1.
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "shared/base/host.h"
#include "shared/comm/communicator.h"
#include "tests/comm/conformance.h"

namespace {

// Binds this process, before MPI starts, to the core whose turn it is.
bool bind_to_one_core() {
  std::vector<std::size_t> own;
  const auto allowed = retina::allowed_cores();
  for (std::size_t core = 0; core < allowed.size(); ++core) {
    if (allowed[core] != 0) own.push_back(core);
  }
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(own.at((rank == nullptr ? 0 : std::stoul(rank)) % own.size()), &set);
  return ::sched_setaffinity(0, sizeof set, &set) == 0;
}

// Returns how many ranks, all of this node, may run on a core of rank 0; 0 on other ranks.
int ranks_on_cores_of_root(retina::Communicator& comm) {
  std::string mask;
  for (const int allowed : retina::allowed_cores()) mask += allowed != 0 ? '1' : '0';
  const std::vector<std::string> masks = comm.gather(mask, 0);
  std::ptrdiff_t most = 0;
  for (std::size_t core = 0; core < mask.size() && comm.is_root(); ++core) {
    if (mask[core] == '0') continue;
    most = std::max(most, std::ranges::count_if(
                              masks, [&](const std::string& one) { return one[core] == '1'; }));
  }
  return static_cast<int>(most);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> wanted(argv + 1, argv + argc);
  if (!wanted.empty() && wanted.front() == "bound") {
    if (!bind_to_one_core()) return 1;
    wanted.erase(wanted.begin());
  }
  retina::MpiSession session;
  const auto comm = session.make_communicator();
  std::size_t checked = 0;
  bool good = true;
  for (const auto& rule : retina::conformance_rules()) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), rule.name) == wanted.end()) {
      continue;
    }
    ++checked;
    retina::Findings findings;
    try {
      rule.check(*comm, findings);
    } catch (const std::exception& error) {
      std::cerr << rule.name << ": rank " << comm->rank() << ": " << error.what() << "\n";
      session.abort(1);  // the others may wait for this rank
      return 1;
    }
    for (const auto& finding : findings.list()) {
      std::cerr << rule.name << ": rank " << comm->rank() << ": " << finding << "\n";
      good = false;
    }
  }
  if (checked != (wanted.empty() ? retina::conformance_rules().size() : wanted.size())) {
    std::cerr << "a rule of that name is not there\n";
    good = false;
  }
  const int sharing = ranks_on_cores_of_root(*comm);
  if (comm->is_root() && comm->ranks_on_cores() != sharing) {
    std::cerr << "ranks on the root's cores: got " << comm->ranks_on_cores() << ", want " << sharing
              << "\n";
    good = false;
  }
  session.finish();
  return good ? 0 : 1;
}
