// Run by ctest under mpirun: the MPI back end keeps the rules of conformance.h. With names of
// rules, these only. Prints what broke and ends with 1.
#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "shared/comm/communicator.h"
#include "tests/comm/conformance.h"

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
  session.finish();
  return good ? 0 : 1;
}
