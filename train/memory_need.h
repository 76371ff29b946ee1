// Forecasts the memory that a rank needs for so many images at once: one step on small images is
// measured, and activations grow with the pixels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/memory.h"
#include "shared/image/resize.h"
#include "train/start/job.h"
#include "train/start/step_speed.h"
#include "train/step/replica.h"

namespace retina {

// The memory that a step's forward and backward hold, beyond the replica's own, for images of any
// size: in each of the step's parts an amount that does not depend on them (gradients) and one that
// grows with their pixels (activations). The part that takes the most depends on the size, too.
class StepMemory {
 public:
  // Runs a step on two and on four small images, no larger than `largest_padded`; nothing of it
  // stays. With sync_bn collective.
  StepMemory(Replica& replica, const ImageSize& largest_padded);

  // Returns the most at once, with so many padded pixels in a micro-batch.
  double bytes(double pixels) const;

 private:
  struct Part {
    double fixed_bytes = 0, bytes_per_pixel = 0;
  };
  std::vector<Part> parts_;
};

class MemoryNeed {
 public:
  // For the steps of the job's plan from `begin` to `end`. With sync_bn collective.
  MemoryNeed(const Job& job, Replica& replica, std::int64_t begin, std::int64_t end);

  // Returns the peak of this process with so many images at once, including what it holds now: in
  // RAM, or on its GPU. An estimate: tests/train/out_of_memory_test.cpp and tests/e2e show how
  // good.
  std::int64_t bytes(int images) const;
  // Returns what it holds now and can still get, of a machine that others use, too, two thirds of
  // it; `free_` names the limit.
  std::int64_t available_bytes() const { return held_bytes_ + free_.bytes; }

  bool fits(int images) const { return bytes(images) <= available_bytes(); }

  // Returns "about 3.1 GiB of 7.5 GiB (this machine)".
  std::string text(int images) const;

 private:
  std::int64_t loader_bytes(int images) const;

  bool on_gpu_ = false;
  ImageSize padded_;  // the largest of a step
  std::int64_t largest_stored_bytes_ = 0;
  int decode_threads_ = 1;
  std::int64_t snapshot_bytes_ = 0;  // size of a checkpoint being written
  std::optional<StepMemory> step_;
  std::int64_t held_bytes_ = 0;  // before the measurement, as `free_`
  FreeMemory free_;
  // That the measurement has left behind: kernels that a library compiles for each new shape.
  std::int64_t code_bytes_ = 0;
};

}  // namespace retina
