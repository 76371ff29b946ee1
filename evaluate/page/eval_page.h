// What the pages of evaluations show, for render_page(). report.html: the data is metrics.json's
// text, the ids of the images are those of its "images"; one without a file is a plain panel.
// compare.html: compare.json's.
#pragma once

#include "shared/report/page.h"

namespace retina {

inline constexpr const char* kEvaluationTitle = "Evaluation";
extern const EmbeddedText kDetectionScript;
extern const EmbeddedText kClassificationScript;
extern const EmbeddedText kComparisonScript;  // of both tasks

}  // namespace retina
