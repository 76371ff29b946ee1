// What all ranks agree on after a step, so that they continue the same way.
#pragma once

#include <cstdint>
#include <string>

#include "shared/comm/communicator.h"
#include "train/step/task_metrics.h"

namespace retina {

struct StepAgreement {
  TaskMetrics metrics = {};          // over all ranks' images
  bool stop = false;                 // a stop signal came to any rank
  bool save = false;                 // rank 0's clock says that a checkpoint is due
  bool warned_of_ignored = false;    // any rank has warned of a box it left out
  std::int64_t replaced_images = 0;  // of the step, over all ranks
  bool found_damage = false;         // in a record that was whole so far, on any rank

  // "the loss is not finite (...)" or "the gradient is not finite (...)"; "" where all is well.
  // `gradient_norm` is 0 while it is not known.
  std::string problem(Task task, double gradient_norm) const;
};

// From this rank's part. Collective.
StepAgreement agree(const StepAgreement& own, Communicator& communicator);

}  // namespace retina
