#include "train/reduce/link_probe.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "shared/comm/metered_communicator.h"

namespace retina {
namespace {

struct ShapedLink {
  double latency_seconds = 30e-6, bytes_per_second = 50e6;
  double burst_bytes = 0;  // pass at `line_bytes_per_second`, and come back at the link's rate
  double line_bytes_per_second = 2e9;
};

// One of `ranks` alike over links with a token bucket (tc-tbf(8)), in virtual time.
class ShapedRank : public MeteredCommunicator {
 public:
  ShapedRank(int ranks, const ShapedLink& link)
      : ranks_(ranks), link_(link), tokens_(link.burst_bytes) {}
  int rank() const override { return 0; }
  int size() const override { return ranks_; }
  int local_rank() const override { return 0; }
  int local_size() const override { return 1; }
  double elapsed_seconds() const { return now_; }

 protected:
  void do_all_reduce(void*, std::size_t count, ElementType type, ReduceOp) override {
    pass(static_cast<double>(count * element_size_bytes(type)));
  }
  void do_all_reduce_ordered(void*, std::size_t count, ElementType type) override {
    pass(static_cast<double>(count * element_size_bytes(type)));
  }
  void do_broadcast(void*, std::size_t, ElementType, int) override {}
  std::vector<std::string> do_gather(const std::string& bytes, int) override { return {bytes}; }
  void do_barrier() override { wait(2 * link_.latency_seconds); }
  double clock_seconds() const override { return now_; }

 private:
  void wait(double seconds) {
    now_ += seconds;
    tokens_ = std::min(link_.burst_bytes, tokens_ + seconds * link_.bytes_per_second);
  }
  void pass(double bytes) {
    const double volume = 2.0 * (ranks_ - 1) / ranks_ * bytes;
    const double at_once = std::min(tokens_, volume);
    tokens_ -= at_once;
    wait(2.0 * (ranks_ - 1) * link_.latency_seconds);
    now_ += at_once / link_.line_bytes_per_second + (volume - at_once) / link_.bytes_per_second;
  }

  const int ranks_;
  const ShapedLink link_;
  double now_ = 0, tokens_ = 0;
};

TEST(LinkProbe, FindsTheSustainedBandwidthBehindABurst) {
  for (const int ranks : {2, 3, 8}) {
    for (const double burst : {0.0, 64e3, 256e3, 1e6}) {
      ShapedRank rank(ranks, {.burst_bytes = burst});
      const RingFit fit = probe_link(rank, {});
      EXPECT_NEAR(fit.link.bytes_per_second / 50e6, 1, 0.05) << ranks << " ranks, burst " << burst;
      EXPECT_GE(fit.link.latency_seconds, 29e-6) << ranks << " ranks, burst " << burst;
      EXPECT_LT(fit.link.latency_seconds, 40e-6) << ranks << " ranks, burst " << burst;
    }
  }
}

TEST(LinkProbe, KeepsToItsBudget) {
  for (const double bandwidth : {1e6, 50e6, 1e9, 25e9}) {
    ShapedRank rank(4, {.bytes_per_second = bandwidth});
    const RingFit fit = probe_link(rank, {.budget_seconds = 1});
    EXPECT_NEAR(fit.link.bytes_per_second / bandwidth, 1, 1e-6);
    // The two least sizes are measured on any link.
    const double least = 10 * 1.5 * (12 << 10) / bandwidth;
    EXPECT_LT(rank.elapsed_seconds(), std::max(1.0, least)) << bandwidth;
  }
}

}  // namespace
}  // namespace retina
