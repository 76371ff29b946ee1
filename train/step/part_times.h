// Where a step's time goes on one rank, all its passes together; step_clock.h measures it.
#pragma once

namespace retina {

struct PartTimes {
  double upload_ms = 0;    // pixels to the device
  double forward_ms = 0;   // the network
  double loss_ms = 0;      // boxes to the device, matching, both losses and their gradients
  double backward_ms = 0;  // the network's; gradients of full buckets are summed meanwhile
  double update_ms = 0;    // norm, clipping, optimizer, moving average
};

}  // namespace retina
