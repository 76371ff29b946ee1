// The promises of communicator.h as rules that every back end keeps: run by gtest for the ones in
// one process (conformance_test.cpp), by communicator_check.cpp under mpirun.
#pragma once

#include <string>
#include <vector>

#include "shared/comm/communicator.h"

namespace retina {

// What a rule found broken on this rank. Rules go on after a finding: all ranks call the same.
class Findings {
 public:
  void expect(bool condition, const std::string& what) {
    if (!condition && list_.size() < 20) list_.push_back(what);
  }
  const std::vector<std::string>& list() const { return list_; }

 private:
  std::vector<std::string> list_;
};

struct ConformanceRule {
  const char* name;
  // Collective: all ranks call it.
  void (*check)(Communicator& comm, Findings& findings);
};

const std::vector<ConformanceRule>& conformance_rules();

}  // namespace retina
