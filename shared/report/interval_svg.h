// Values with their intervals, one below the other, as an inline SVG image; its colours come from
// the page's style sheet.
#pragma once

#include <string>

#include "shared/report/report.h"

namespace retina {

// The <svg> element; says "no values" when there is nothing to draw. 0 is always on the axis.
std::string interval_svg(const IntervalPlot& plot);

}  // namespace retina
