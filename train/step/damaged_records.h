// Records that turned out to be damaged while training: each is named once, and too many end the
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
  // `index` is the training set's and must outlive this. More than `most_fraction` of its records
  // end the job.
  DamagedRecords(const ImageIndex& index, double most_fraction)
      : index_(index), most_fraction_(most_fraction) {}

  // What this rank is about to train on.
  void look_at(const Batch& batch);
  // Whether it saw records since the last agree() that no rank has told of.
  bool has_news() const { return !news_.empty(); }

  // Makes all ranks' news known to all; rank 0 warns of each record. Collective. Returns why the
  // job must end, the same on all ranks, or "".
  std::string agree(Communicator& communicator);

 private:
  const ImageIndex& index_;
  double most_fraction_;
  std::set<std::size_t> known_;              // by all ranks
  std::map<std::size_t, std::string> news_;  // record -> its problem
};

}  // namespace retina
