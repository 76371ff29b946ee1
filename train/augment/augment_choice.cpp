#include "train/augment/augment_choice.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "shared/base/error.h"
#include "shared/cli/cli.h"

namespace retina {
namespace {

// A number or a range of a set, with the bounds of its values.
struct Detail {
  const char* name;
  double least, most;
  double AugmentOptions::*number = nullptr;
  Range AugmentOptions::*range = nullptr;
};

constexpr Detail kDetails[] = {{"flip", 0, 1, &AugmentOptions::flip},
                               {"vertical-flip", 0, 1, &AugmentOptions::vertical_flip},
                               {"rotation", 0, 3.15, &AugmentOptions::rotation_rad},
                               {"shear", 0, 1, &AugmentOptions::shear_rad},
                               {"translation", 0, 1, &AugmentOptions::translation},
                               {"scale", 0.1, 10, nullptr, &AugmentOptions::scale},
                               {"scale-jitter", 0.01, 100, nullptr, &AugmentOptions::scale_jitter},
                               {"crop", 0.01, 1, nullptr, &AugmentOptions::crop},
                               {"contrast", 0, 10, nullptr, &AugmentOptions::contrast},
                               {"saturation", 0, 10, nullptr, &AugmentOptions::saturation},
                               {"brightness", 0, 1, &AugmentOptions::brightness},
                               {"hue", 0, 0.5, &AugmentOptions::hue},
                               {"box-visibility", 0, 1, &AugmentOptions::box_visibility}};
constexpr const char* kFill = "fill";

[[noreturn]] void refuse(const std::string& got, const std::string& want) {
  throw Error(ErrorKind::kUsage, cat("--augment: bad value (got ", got, ", want ", want, ")"));
}

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  return parsed.ec == std::errc() && parsed.ptr == end ? std::optional(value) : std::nullopt;
}

// Replaces a detail by the item "NAME=VALUE".
void take(const std::string& item, AugmentOptions& options) {
  const std::string name = item.substr(0, item.find('=')), value = item.substr(name.size() + 1);
  if (name == kFill) {
    const auto fill = value_of(kFills, value);
    if (!fill) refuse(item, cat("fill=", words_of(kFills)));
    options.fill = *fill;
    return;
  }
  const auto* const found = std::find_if(std::begin(kDetails), std::end(kDetails),
                                         [&](const Detail& one) { return one.name == name; });
  if (found == std::end(kDetails)) {
    std::string names;
    for (const Detail& one : kDetails) names += cat(one.name, "=, ");
    refuse(item, cat("a set, ", names, kFill, "="));
  }
  const std::size_t colon = value.find(':');
  const auto low = number_of(value.substr(0, colon)),
             high = colon == std::string::npos ? low : number_of(value.substr(colon + 1));
  const bool is_good = low && high && *low >= found->least && *high <= found->most &&
                       *low <= *high && (colon != std::string::npos) == (found->range != nullptr);
  if (!is_good) {
    refuse(item, cat(name, found->range != nullptr ? "=LOW:HIGH from " : "=",
                     shortest(found->least), " to ", shortest(found->most)));
  }
  if (found->range != nullptr) {
    options.*found->range = {*low, *high};
  } else {
    options.*found->number = *low;
  }
}

// Throws Error{kUsage} for two scales: an image has one, on the canvas or in a crop.
void check_one_scale(const AugmentOptions& options) {
  const Detail* first = nullptr;
  for (const Detail& one : kDetails) {
    if (one.range != &AugmentOptions::scale && one.range != &AugmentOptions::scale_jitter &&
        one.range != &AugmentOptions::crop) {
      continue;
    }
    if ((options.*one.range).is_always(1)) continue;
    if (first != nullptr) {
      throw Error(ErrorKind::kUsage,
                  cat("--augment: ", first->name, " and ", one.name,
                      " cannot be combined: each sets the scale"),
                  cat("add ", first->name, "=1:1 or ", one.name, "=1:1 to leave it out"));
    }
    first = &one;
  }
}

bool is_detail(const std::string& item) {
  return item.find('=') != std::string::npos;
}

}  // namespace

Augment AugmentChoice::set(Augment usual) const {
  if (items.empty() || is_detail(items.front())) return usual;
  const auto found = value_of(kAugments, items.front());
  if (!found) refuse(items.front(), words_of(kAugments));
  return *found;
}

bool AugmentChoice::has_detail(const std::string& name) const {
  return std::any_of(items.begin(), items.end(),
                     [&](const std::string& item) { return item.starts_with(name + "="); });
}

AugmentOptions AugmentChoice::options(Augment usual) const {
  AugmentOptions result = options_of(set(usual));
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (is_detail(items[i])) {
      take(items[i], result);
    } else if (i > 0) {
      refuse(items[i], "NAME=VALUE behind the set");
    }
  }
  check_one_scale(result);
  return result;
}

void declare_options(Cli& cli, AugmentChoice& choice) {
  cli.option(
      "augment", choice.items, "SET,NAME=VALUE,...",
      cat("random changes of images; the set is one of ", words_of(kAugments),
          " [flip, by small light; classify: crop]. crop: mirror and random resized crops; light: "
          "mirror, colours, small rotations, shifts and shears; strong: mirror, colours, scales "
          "0.1 to 2, crops. A detail replaces the set's: flip and vertical-flip, probabilities; "
          "rotation and shear (radians), translation (share of the sides), brightness, hue "
          "(turns), up to this, either way; scale=LOW:HIGH about the middle; "
          "scale-jitter=LOW:HIGH, a smaller image or a crop of a larger one; crop=LOW:HIGH, a part "
          "of this share of the area; contrast and saturation=LOW:HIGH, factors; fill=nearest or "
          "constant, of what is outside the image; box-visibility, least share of a box that stays "
          "inside. As light,rotation=0.2,scale=0.8:1.2"));
}

}  // namespace retina
