// The parity table: every comparison with the reference adds a row, and the program prints them all
// at its end.
#pragma once

#include <string>

namespace retina {

struct ParityRow {
  std::string rung = {};    // what is compared, in which unit
  std::string config = {};  // "v1_resnet50", or "-" for an operation alone
  double error = 0;         // the worst one
  double bound = 0;         // the project's promise
};

// Adds a row; whether its error is within its bound (a NaN is not).
bool holds(const ParityRow& row);

}  // namespace retina
