#include "shared/comm/collective.h"

#include "shared/base/cat.h"

namespace retina {

std::string describe(const Collective& what) {
  const std::string data = cat(what.count, " ", element_name(what.type));
  const char* op = what.op == ReduceOp::kSum ? "sum" : "max";
  // A faulty rank may say a count where there is none.
  const std::string stray = what.count == 0 ? "" : cat(", ", data);
  switch (what.kind) {
    case Collective::Kind::kAllReduce:
      return cat("all_reduce(", data, ", ", op, ")");
    case Collective::Kind::kAllReduceOrdered:
      return cat("all_reduce_ordered(", data, ")");
    case Collective::Kind::kBroadcast:
      return cat("broadcast(", data, ", root ", what.root, ")");
    case Collective::Kind::kGather:
      return cat("gather(root ", what.root, stray, ")");
    case Collective::Kind::kBarrier:
      break;
  }
  return cat("barrier", stray);
}

std::string describe_ranks(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (i > 0) text += ", ";
    text += cat(ranks[i]);
    if (last > i) text += cat("-", ranks[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace retina
