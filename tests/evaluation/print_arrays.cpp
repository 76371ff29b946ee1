// Prints what evaluate_detections makes of random sets, for tests/oracle/coco_metrics.py:
//
//   print_arrays FIRST COUNT   for each set, f64: 12 stats, precision, scores, recall
#include <cstdio>
#include <cstdlib>

#include "shared/evaluation/score/metrics.h"
#include "tests/evaluation/random_set.h"

int main(int argc, char** argv) {
  if (argc != 3) return 64;
  const int first = std::atoi(argv[1]), count = std::atoi(argv[2]);
  for (int number = first; number < first + count; ++number) {
    const retina::RandomSet set = retina::random_set(number);
    const auto metrics =
        retina::evaluate_detections(set.truth, set.found, {.with_arrays = true, .thread_count = 1});
    std::fwrite(metrics.stats.data(), sizeof(double), metrics.stats.size(), stdout);
    for (const auto* values :
         {&metrics.arrays.precision, &metrics.arrays.scores, &metrics.arrays.recall}) {
      std::fwrite(values->data(), sizeof(double), values->size(), stdout);
    }
  }
}
