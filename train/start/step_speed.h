// Measures how fast this machine trains a network, by a few steps on small grey images.
#pragma once

#include <c10/core/Device.h>

#include "shared/data/batch.h"
#include "shared/image/resize.h"
#include "shared/model/network.h"
#include "train/start/options.h"
#include "train/step/replica.h"

namespace retina {

// Returns a replica's options for such a job; the sizes of stored buckets are left out.
ReplicaOptions replica_options(const TrainOptions& options, int class_count,
                               const c10::Device& device);

// Returns grey images without boxes, of the first class, in the form in which the network's device
// takes them.
Batch grey_batch(const ImageSize& padded, int images, const Network& network);

struct StepSpeed {
  double seconds_per_pixel = 0;  // of a padded image: forward, loss, backward and update
  Precision precision = Precision::kFp32;
  double bf16_share = 1;  // bf16's time over fp32's; 1: not measured

  double image_seconds(const ImageSize& padded) const {
    return seconds_per_pixel * padded.width * padded.height;
  }
};

// Measures the faster of the precisions that `options` leaves open: bf16 if the device has units
// for it and they save a seventh of the time at least, else fp32. Takes about a second on a CPU.
StepSpeed measure_step(const TrainOptions& options, int class_count, const c10::Device& device);

}  // namespace retina
