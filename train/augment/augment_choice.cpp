#include "train/augment/augment_choice.h"

#include <array>
#include <string>
#include <utility>

#include "shared/base/cli.h"
#include "shared/base/error.h"

namespace retina {
namespace {

// Puts what is given in place of the set's value.
void take(const std::optional<double>& given, double& value) {
  value = given.value_or(value);
}

void take(const char* option, const std::optional<std::vector<double>>& given, Range& range) {
  if (!given) return;
  const auto& values = *given;
  if (values.size() != 2 || values[0] > values[1]) {
    std::string got;
    for (const double value : values) got += cat(got.empty() ? "" : ",", shortest(value));
    throw Error(ErrorKind::kUsage, cat("--", option, ": bad value (got ", got, ", want LOW,HIGH)"));
  }
  range = {values[0], values[1]};
}

// An image has one scale: as it is on the canvas, or in a crop.
void check_one_scale(const AugmentOptions& options) {
  const std::array<std::pair<const char*, Range>, 3> ranges = {
      {{"scale", options.scale}, {"scale-jitter", options.scale_jitter}, {"crop", options.crop}}};
  const char* first = nullptr;
  for (const auto& [name, range] : ranges) {
    if (range.is_always(1)) continue;
    if (first != nullptr) {
      throw Error(ErrorKind::kUsage,
                  cat("--", first, " and --", name, " cannot be combined: each sets the scale"),
                  cat("give --", first, " 1,1 or --", name, " 1,1 to leave it out"));
    }
    first = name;
  }
}

}  // namespace

AugmentOptions AugmentChoice::options(Augment usual) const {
  AugmentOptions result = options_of(set.value_or(usual));
  take(flip, result.flip);
  take(vertical_flip, result.vertical_flip);
  take(rotation, result.rotation_rad);
  take(shear, result.shear_rad);
  take(translation, result.translation);
  take("scale", scale, result.scale);
  take("scale-jitter", scale_jitter, result.scale_jitter);
  take("crop", crop, result.crop);
  take("contrast", contrast, result.contrast);
  take("saturation", saturation, result.saturation);
  take(brightness, result.brightness);
  take(hue, result.hue);
  take(box_visibility, result.box_visibility);
  if (fill) result.fill = *fill;
  check_one_scale(result);
  return result;
}

void declare_options(Cli& cli, AugmentChoice& c) {
  cli.group("Augmentation (by default as the set has it)");
  cli.choice(
      "augment", c.set, kAugments,
      "random changes of images; crop: mirror and random resized crops; light: mirror, "
      "colours, small rotations, shifts and shears; strong: mirror, colours, scales 0.1 to 2 "
      "with crops [flip; classify: crop]");
  cli.option("flip", c.flip, "P", "probability of a left-right mirror [0.5; none 0]",
             {.least = 0, .most = 1});
  cli.option("vertical-flip", c.vertical_flip, "P", "probability of a top-bottom mirror [0]",
             {.least = 0, .most = 1});
  cli.option("rotation", c.rotation, "RAD", "up to this, either way [light 0.1]",
             {.least = 0, .most = 3.15});
  cli.option("shear", c.shear, "RAD", "up to this, either way [light 0.1]",
             {.least = 0, .most = 1});
  cli.option("translation", c.translation, "SHARE",
             "of the image's sides, up to this, either way [light 0.1]", {.least = 0, .most = 1});
  cli.option("scale", c.scale, "LOW,HIGH", "about the middle, for each axis [light 0.9,1.1]",
             {.least = 0.1, .most = 10});
  cli.option("scale-jitter", c.scale_jitter, "LOW,HIGH",
             "a smaller image at a random place, a random crop of a larger one [strong 0.1,2]",
             {.least = 0.01, .most = 100});
  cli.option("crop", c.crop, "LOW,HIGH",
             "a part of this share of the image's area, at a random place, enlarged [crop 0.08,1]",
             {.least = 0.01, .most = 1});
  cli.option("contrast", c.contrast, "LOW,HIGH", "factor [light and strong 0.9,1.1]",
             {.least = 0, .most = 10});
  cli.option("saturation", c.saturation, "LOW,HIGH", "factor [light and strong 0.95,1.05]",
             {.least = 0, .most = 10});
  cli.option("brightness", c.brightness, "SHARE",
             "of the range from black to white, up to this, either way [light and strong 0.1]",
             {.least = 0, .most = 1});
  cli.option("hue", c.hue, "TURNS", "up to this, either way [light and strong 0.05]",
             {.least = 0, .most = 0.5});
  cli.choice("fill", c.fill, kFills,
             "what is outside the image: its nearest pixel, or the mean colour [nearest; strong "
             "constant]");
  cli.option("box-visibility", c.box_visibility, "SHARE",
             "a box of which less than this stays inside the image is dropped [0.25]",
             {.least = 0, .most = 1, .modes = kDetect});
}

}  // namespace retina
