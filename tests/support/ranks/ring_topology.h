// What collectives cost between ranks on several nodes, with a latency α and a bandwidth β each
// inside and between nodes: the virtual time of the thread world. A link's cost is Hockney's
// (1994), the ring's as in Thakur, Rabenseifner & Gropp 2005, "Optimization of collective
// communication operations in MPICH", section 4.5.
#pragma once

#include <limits>

namespace retina {

struct LinkCost {
  double latency_seconds = 0;                                         // α, of one message
  double bytes_per_second = std::numeric_limits<double>::infinity();  // β, of one direction
};

// Ranks in a ring, node by node.
struct RingTopology {
  int ranks = 1;
  int ranks_per_node = 0;  // 0: all on one node; the last node may have fewer
  LinkCost intra_node = {}, inter_node = {};

  int nodes() const;
};

// Both modes of all-reduce. n ranks on N nodes; bytes S of a rank's buffer:
//   2(n-N)·α_intra + 2(N-1)·α_inter + 2(n-1)/n · S / β
// with β the slower link's when N > 1. A ring that closes over N > 1 nodes has N slow links, of
// which a part's way round, n-1 hops, meets N-1.
double all_reduce_seconds(const RingTopology& ring, double bytes);

// Along a binary tree with the slower link: ceil(log2 n)·α + S/β. A barrier is a broadcast of
// nothing.
double broadcast_seconds(const RingTopology& ring, double bytes);

// Into one rank, one after the other: (n-1)·α + `bytes` / β of the slower link, where `bytes` are
// those of all ranks.
double gather_seconds(const RingTopology& ring, double bytes);

}  // namespace retina
