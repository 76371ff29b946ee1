// What the user asks for with --augment and the options that change a set's details.
#pragma once

#include <optional>
#include <vector>

#include "shared/base/choices.h"
#include "train/augment/augmentation.h"

namespace retina {

class Cli;

// Their words on the command line.
inline const Choices<Augment> kAugments = {{"none", Augment::kNone},
                                           {"flip", Augment::kFlip},
                                           {"crop", Augment::kCrop},
                                           {"light", Augment::kLight},
                                           {"strong", Augment::kStrong}};
inline const Choices<Fill> kFills = {{"nearest", Fill::kNearest}, {"constant", Fill::kConstant}};

// Unset: as the set has it. Units as in AugmentOptions; ranges are low, high.
struct AugmentChoice {
  std::optional<Augment> set;
  std::optional<double> flip, vertical_flip, rotation, shear, translation, brightness, hue,
      box_visibility;
  std::optional<std::vector<double>> scale, scale_jitter, crop, contrast, saturation;
  std::optional<Fill> fill;

  // Throws Error{kUsage} for values that make no sense, or not together. `usual` is the set where
  // none is chosen.
  AugmentOptions options(Augment usual = Augment::kFlip) const;
};

// Declares the options of the group "Augmentation".
void declare_options(Cli& cli, AugmentChoice& choice);

}  // namespace retina
