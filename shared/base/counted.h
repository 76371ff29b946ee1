// Counted nouns in messages and pages: "1 image", "2 images", "0 classes".
#pragma once

#include <string>
#include <string_view>

#include "shared/base/cat.h"

namespace retina {

// `count` as a stream prints it and `noun`, in the plural unless it is 1: with an "s", or `plural`
// where one is given ("class", "classes").
template <class Number>
std::string counted(const Number& count, std::string_view noun, std::string_view plural = "") {
  if (count == Number{1}) return cat(count, ' ', noun);
  return plural.empty() ? cat(count, ' ', noun, 's') : cat(count, ' ', plural);
}

}  // namespace retina
