// Run by ctest under mpirun: the MPI back end keeps the rules of conformance.h. With names of
// rules, these only. Prints what broke and ends with 1.
#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "shared/base/host.h"
#include "shared/comm/communicator.h"
#include "tests/comm/conformance.h"

namespace {

// Returns the number of ranks, all of this node, that may run on a core of rank 0; on other ranks
// 0.
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
  const std::vector<std::string> wanted(argv + 1, argv + argc);
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
