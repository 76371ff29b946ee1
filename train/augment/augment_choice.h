// The value of --augment: a set, and details that replace the set's.
#pragma once

#include <string>
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

struct AugmentChoice {
  // "light", or none, then details: "rotation=0.2", "scale=0.5:2", "fill=constant".
  std::vector<std::string> items{};

  // Returns the set that is named, else `usual`.
  Augment set(Augment usual) const;
  bool has_detail(const std::string& name) const;
  // Returns the set with its details replaced. Throws Error{kUsage} for values that make no sense,
  // or not together.
  AugmentOptions options(Augment usual = Augment::kFlip) const;
};

// Declares --augment.
void declare_options(Cli& cli, AugmentChoice& choice);

}  // namespace retina
