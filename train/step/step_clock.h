// Measures the time of each part of a step. On a GPU, which works behind the program, a part is the
// time between two events of its stream: nothing waits for them.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <optional>
#include <vector>

namespace retina {

// Times on one rank, all micro-batches together.
struct PartTimes {
  double upload_ms = 0;    // pixels to the device
  double forward_ms = 0;   // the network
  double loss_ms = 0;      // boxes to the device, matching, both losses and their gradients
  double backward_ms = 0;  // the network's; gradients of full buckets are summed meanwhile
  double update_ms = 0;    // norm, clipping, optimizer, moving average
};

class StepClock {
 public:
  using Part = double PartTimes::*;

  explicit StepClock(c10::Device device) : device_(device) {}

  // Ends the part before and begins this one.
  void begin(Part part) { mark(part); }
  // Ends the part before; the time that follows belongs to none.
  void end() { mark(nullptr); }

  struct Mark {
    Part part = nullptr;  // the part that begins here
    double seconds = 0;   // time on the CPU
    std::optional<c10::Event> event = {};
  };
  // Returns the marks after a step's last part, for `times`, and starts anew.
  std::vector<Mark> take();
  // Returns the parts' times; waits until the device has passed the last mark.
  PartTimes times(const std::vector<Mark>& marks) const;

 private:
  void mark(Part part);
  double ms_between(const Mark& from, const Mark& to) const;

  c10::Device device_;
  std::vector<Mark> marks_;
};

}  // namespace retina
