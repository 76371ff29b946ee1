// Records that turn out to be damaged during training: each is named once, and too many end the
// job, on all ranks at the same step.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "shared/comm/communicator.h"
#include "shared/data/batch.h"
#include "shared/shard/image_index.h"

namespace retina {

class DamagedRecords {
 public:
  // `index` is the training set's and must outlive this. The job ends when more than
  // `most_fraction` of its records are damaged.
  DamagedRecords(const ImageIndex& index, double most_fraction)
      : index_(index), most_fraction_(most_fraction) {}

  // Checks a batch that this rank is about to train on.
  void check(const Batch& batch);
  // Returns whether this rank found records since the last agree() that no rank has reported.
  bool has_new() const { return !new_.empty(); }

  // Shares all ranks' findings; rank 0 warns of each record. Collective. Returns why the job must
  // end, the same on all ranks, or "".
  std::string agree(Communicator& communicator);

 private:
  const ImageIndex& index_;
  double most_fraction_;
  std::set<std::size_t> known_;             // known to all ranks
  std::map<std::size_t, std::string> new_;  // record -> its problem, not yet shared
};

}  // namespace retina
