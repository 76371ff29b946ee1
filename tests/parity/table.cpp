#include "tests/parity/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <vector>

namespace retina {
namespace {

std::vector<ParityRow>& rows() {
  static std::vector<ParityRow> list;
  return list;
}

class PrintTable : public testing::Environment {
  void TearDown() override {
    std::printf("\n%-44s %-12s %10s %10s\n", "parity with torchvision, pycocotools", "model",
                "worst", "bound");
    for (const ParityRow& row : rows()) {
      std::printf("%-44s %-12s %10.1e %10.0e%s\n", row.rung.c_str(), row.config.c_str(), row.error,
                  row.bound, row.error <= row.bound ? "" : "  MISSED");
    }
    std::fflush(stdout);
  }
};

[[maybe_unused]] const testing::Environment* const g_printer =
    testing::AddGlobalTestEnvironment(new PrintTable);

}  // namespace

bool holds(const ParityRow& row) {
  rows().push_back(row);
  return row.error <= row.bound;
}

}  // namespace retina
