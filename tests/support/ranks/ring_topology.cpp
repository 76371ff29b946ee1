#include "tests/support/ranks/ring_topology.h"

#include <algorithm>
#include <bit>

namespace retina {
namespace {

const LinkCost& slower_link(const RingTopology& ring) {
  return ring.nodes() > 1 ? ring.inter_node : ring.intra_node;
}

double ring_bandwidth(const RingTopology& ring) {
  if (ring.nodes() == 1) return ring.intra_node.bytes_per_second;
  // One rank a node: no byte stays inside a node.
  if (ring.nodes() == ring.ranks) return ring.inter_node.bytes_per_second;
  return std::min(ring.intra_node.bytes_per_second, ring.inter_node.bytes_per_second);
}

}  // namespace

int RingTopology::nodes() const {
  return ranks_per_node == 0 ? 1 : (ranks + ranks_per_node - 1) / ranks_per_node;
}

double all_reduce_seconds(const RingTopology& ring, double bytes) {
  const int n = ring.ranks, nodes = ring.nodes();
  return 2.0 * (n - nodes) * ring.intra_node.latency_seconds +
         2.0 * (nodes - 1) * ring.inter_node.latency_seconds +
         2.0 * (n - 1) / n * bytes / ring_bandwidth(ring);
}

double broadcast_seconds(const RingTopology& ring, double bytes) {
  if (ring.ranks == 1) return 0;
  const int hops = std::bit_width(static_cast<unsigned>(ring.ranks - 1));
  const LinkCost& link = slower_link(ring);
  return hops * link.latency_seconds + bytes / link.bytes_per_second;
}

double gather_seconds(const RingTopology& ring, double bytes) {
  if (ring.ranks == 1) return 0;
  const LinkCost& link = slower_link(ring);
  return (ring.ranks - 1) * link.latency_seconds + bytes / link.bytes_per_second;
}

}  // namespace retina
