// The learning rate as a pure function of the step: linear warm-up times step decay, cosine,
// inverse-time decay or constant. Nothing to save, so a resumed run cannot restart it. (What a
// plateau adds to it is in adaptive_schedule.h.)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/choices.h"

namespace retina {

enum class ScheduleKind { kConstant, kStep, kCosine, kInverseTime, kPlateau };

// Their words on the command line and in checkpoints.
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

// Rate for the update number `step`, counted from 0; all kinds count the steps of the warm-up too.
double learning_rate(const ScheduleOptions& options, std::int64_t step);

// Epochs or steps of a run at most. An epoch has less than 2^32 steps (records are counted in 32
// bits): the product fits 64 bits.
inline constexpr std::int64_t kMostInSpan = 1'000'000'000;

// A span given as "2epochs", "500steps" or "10min".
struct Span {
  enum class Unit { kEpochs, kSteps, kMinutes };
  double count = 0;
  Unit unit = Unit::kEpochs;
};

// Throws Error{kUsage} naming `option`, also for more than kMostInSpan.
Span parse_span(const std::string& option, const std::string& text);

}  // namespace retina
