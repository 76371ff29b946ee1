// The learning rate as a pure function of the step: linear warm-up times step decay, cosine,
// inverse-time decay or constant. Nothing to save, so a resumed run cannot restart it.
// (adaptive_schedule.h adds the drops at plateaus.)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/choices.h"

namespace retina {

enum class ScheduleKind { kConstant, kStep, kCosine, kInverseTime, kPlateau };

// The kinds' names on the command line and in checkpoints.
inline const Choices<ScheduleKind> kSchedules = {{"step", ScheduleKind::kStep},
                                                 {"cosine", ScheduleKind::kCosine},
                                                 {"inverse-time", ScheduleKind::kInverseTime},
                                                 {"plateau", ScheduleKind::kPlateau},
                                                 {"constant", ScheduleKind::kConstant}};

struct ScheduleOptions {
  ScheduleKind kind = ScheduleKind::kStep;
  double base_lr = 0.01;
  // Linear warm-up: at step s < warmup_steps the rate is multiplied by f + (1 - f) s /
  // warmup_steps, f = warmup_factor (torch.optim.lr_scheduler.LinearLR; torchvision: 1000 steps
  // from 1/1000).
  std::int64_t warmup_steps = 0;
  double warmup_factor = 0.001;
  // kStep: multiplied by drop_factor from each of these steps on (MultiStepLR).
  std::vector<std::int64_t> drop_steps = {};
  double drop_factor = 0.1;
  // kCosine: base_lr (1 + cos(pi s / total_steps)) / 2 (Loshchilov & Hutter 2017, eq. 5, no
  // restart).
  std::int64_t total_steps = 0;
  // kInverseTime: base_lr / (1 + decay s), which halves it after 1 / decay steps (the `decay` of
  // Keras' optimizers up to Keras 2).
  double decay = 0;
};

// Returns the rate for the update number `step`, counted from 0; all kinds count the steps of the
// warm-up too.
double learning_rate(const ScheduleOptions& options, std::int64_t step);

// Largest number of epochs or steps of a run. An epoch has less than 2^32 steps (records are
// counted in 32 bits): the product fits 64 bits.
inline constexpr std::int64_t kMostInSpan = 1'000'000'000;

// Returns the default steps of warm-up: 1000, as in torchvision's references, but at most a tenth
// of the run.
std::int64_t default_warmup_steps(std::int64_t total_steps);

// A span given as "2epochs", "500steps", "10min", or "16/26", a share of the whole run.
struct Span {
  enum class Unit { kEpochs, kSteps, kMinutes, kRun };
  double count = 0;  // kRun: unused
  Unit unit = Unit::kEpochs;
  std::int64_t part = 0, whole = 1;  // kRun: part / whole, 0 < part < whole
};

// The unit lengths that spans are converted by.
struct RunLength {
  std::int64_t total_steps = 0, steps_per_epoch = 1;
};
// Converts a span of epochs, steps or a share of the run to steps: epochs rounded, a share rounded
// down.
std::int64_t to_steps(const Span& span, const RunLength& length);

// Returns the step schedule's drops. Spans of epochs and steps are kept as they are, also past the
// end of the run. Shares that a short run leaves no step for are left out: `warmup_steps` < first
// drop < second < ... < the run's length.
std::vector<std::int64_t> drop_steps(const std::vector<Span>& spans, const RunLength& length,
                                     std::int64_t warmup_steps);

// Parses a span. Throws Error{kUsage} naming `option`, also for more than kMostInSpan and for a
// share of nothing or of more than the run.
Span parse_span(const std::string& option, const std::string& text);
// Parses "90s", "30min", "4h" or "2days"; returns seconds. Throws Error{kUsage} naming `option`.
double parse_duration_s(const std::string& option, const std::string& text);

}  // namespace retina
