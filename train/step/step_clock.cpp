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

PartTimes StepClock::take() {
  if (!device_.is_cpu()) std::swap(marks_, before_);
  PartTimes times;
  if (!marks_.empty() && marks_.back().event) marks_.back().event->synchronize();
  for (std::size_t i = 0; i + 1 < marks_.size(); ++i) {
    if (marks_[i].part != nullptr) times.*marks_[i].part += ms_between(marks_[i], marks_[i + 1]);
  }
  marks_.clear();
  return times;
}

}  // namespace retina
