// How long collectives take over links with a latency α and a bandwidth β (Hockney 1994; the ring's
// cost as in Thakur, Rabenseifner & Gropp 2005, "Optimization of collective communication
// operations in MPICH", section 4.5): predicted, and fitted to measured all-reduces.
#pragma once

#include <limits>
#include <vector>

namespace retina {

struct LinkCost {
  double latency_seconds = 0;                                         // α, of one message
  double bytes_per_second = std::numeric_limits<double>::infinity();  // β, of one direction
};

// Both modes of all-reduce, of n ranks in a ring; bytes S of a rank's buffer:
//   2(n-1)·α + 2(n-1)/n · S / β
double all_reduce_seconds(int ranks, const LinkCost& link, double bytes);

struct AllReduceSample {
  double bytes = 0;  // of a rank's buffer
  double seconds = 0;
};

struct RingFit {
  int ranks = 0;
  LinkCost link = {};
  // |predicted - measured| / measured of each size's median, over the sizes that follow the model.
  double median_relative_error = 0, worst_relative_error = 0;
  std::vector<double> left_out_bytes =
      {};  // sizes that do not: another algorithm, a burst for free

  double all_reduce_seconds(double bytes) const;
};

// One number of ranks and what was measured there.
struct RingSamples {
  int ranks = 0;
  std::vector<AllReduceSample> samples = {};
};

// A link that several numbers of ranks share.
struct LinkFit {
  struct LeftOut {
    int ranks = 0;
    double bytes = 0;
  };
  LinkCost link = {};
  // As RingFit's, over every size on every number of ranks.
  double median_relative_error = 0, worst_relative_error = 0;
  std::vector<LeftOut> left_out = {};
};

// Least squares of seconds = 2(n-1)·α + 2(n-1)/n · bytes/β over the sizes, each with the median of
// its repeats (up to half of them may be outliers) and the weight 1/seconds², so that an error of 1
// % counts the same at 8 B and at 64 MiB. Sizes that do not follow the line that most do are left
// out: those off by more than 20 %, and than 3 times the median error, from the line through two of
// the sizes that has the least sum of |log(predicted/measured)|. Neither α nor 1/β is negative.
// Requires `ranks` >= 2, two sizes or more, positive bytes and times (RETINA_CHECK).
RingFit fit_ring(const std::vector<AllReduceSample>& samples, int ranks);

// The same over several numbers of ranks at once: one α and one β for all.
LinkFit fit_links(const std::vector<RingSamples>& rings);

}  // namespace retina
