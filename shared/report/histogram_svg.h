// Counts as bars side by side, as an inline SVG image; its colours come from the page's style
// sheet.
#pragma once

#include <string>

#include "shared/report/report.h"

namespace retina {

// The <svg> element; says "no values" when there is nothing to draw.
std::string histogram_svg(const Histogram& histogram);

}  // namespace retina
