// A classified image with what was said of it, for --draw.
#pragma once

#include <string>

#include "shared/image/image.h"

namespace retina {

struct ClassCaption {
  std::string truth{};
  std::string predicted{};
  double confidence = 0;  // of the prediction
};

// The image, enlarged by a whole factor where it is tiny, above two lines of text: the true class
// and the predicted one with its confidence, green where it is the true one, else red.
Image captioned(const Image& image, const ClassCaption& caption);

}  // namespace retina
