// The report's style sheet, inlined into the page.
#pragma once

namespace retina {

extern const char* const kReportStyle;

}  // namespace retina
