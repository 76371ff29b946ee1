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
};

// Measures, on square images of `side_px`, a classifier's own, the faster of the precisions that
// `options` leaves open: bf16 if the device has units for it and they save a seventh of the time at
// least, else fp32. Takes about a second on a CPU at the default size. `images`: two at least, as
// the layout of one is that of channels first and of channels last.
StepSpeed measure_step(const TrainOptions& options, int class_count, const c10::Device& device,
                       int side_px = 256, int images = 2);

}  // namespace retina
