// A curve as an inline SVG image; its colours come from the page's style sheet.
#pragma once

#include <string>
#include <vector>

#include "shared/report/report.h"

namespace retina {

// The <svg> element; says "no values" when there is nothing to draw.
std::string curve_svg(const Curve& curve);

// The style classes ("s0".."s7", "faint") of each series: a faint series takes the colour of the
// next one that is not, since that is its smoothed form.
std::vector<std::string> series_classes(const std::vector<Series>& series);

// At most about `limit` points that draw the same line: each stretch keeps its lowest and highest.
Series thinned(const Series& series, std::size_t limit);

}  // namespace retina
