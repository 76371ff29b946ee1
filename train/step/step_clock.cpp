#include "train/step/step_clock.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

#include "shared/base/measure.h"

namespace retina {

void StepClock::mark(Part part) {
  Mark& mark = marks_.emplace_back();
  mark.part = part;
  if (device_.is_cpu()) {
    mark.seconds = now_seconds();
    return;
  }
  mark.event.emplace(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
  mark.event->record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
}

double StepClock::ms_between(const Mark& from, const Mark& to) const {
  if (device_.is_cpu()) return (to.seconds - from.seconds) * 1e3;
  return from.event->elapsedTime(*to.event);
}

std::vector<StepClock::Mark> StepClock::take() {
  return std::exchange(marks_, {});
}

PartTimes StepClock::times(const std::vector<Mark>& marks) const {
  PartTimes times;
  if (!marks.empty() && marks.back().event) marks.back().event->synchronize();
  for (std::size_t i = 0; i + 1 < marks.size(); ++i) {
    if (marks[i].part != nullptr) times.*marks[i].part += ms_between(marks[i], marks[i + 1]);
  }
  return times;
}

}  // namespace retina
