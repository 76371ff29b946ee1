// Where a step's time goes, part by part. On a GPU, which works behind the program, a part is what
// lies between two events of its stream: nothing waits for them.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <optional>
#include <vector>

#include "train/step/part_times.h"

namespace retina {

class StepClock {
 public:
  using Part = double PartTimes::*;

  explicit StepClock(c10::Device device) : device_(device) {}

  // The part before ends; this one begins.
  void begin(Part part) { mark(part); }
  // The part before ends; what follows belongs to none.
  void end() { mark(nullptr); }

  // After a step's last part. On a CPU its times; on a GPU those of the step before, which the
  // device has finished: zero after the first.
  PartTimes take();

 private:
  struct Mark {
    Part part = nullptr;  // that begins here
    double seconds = 0;   // CPU
    std::optional<c10::Event> event = {};
  };
  void mark(Part part);
  double ms_between(const Mark& from, const Mark& to) const;

  c10::Device device_;
  std::vector<Mark> marks_, before_;  // of this step and, on a GPU, of the one before
};

}  // namespace retina
