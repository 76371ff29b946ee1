// The scripts of the evaluation pages, for render_page(); generated from the .js files beside this
// header. report.html embeds metrics.json and refers to images by the ids in its "images"; an image
// without a file is a plain panel. compare.html embeds compare.json.
#pragma once

#include "shared/report/page.h"

namespace retina {

inline constexpr const char* kEvaluationTitle = "Evaluation";
extern const EmbeddedText kDetectionScript;
extern const EmbeddedText kClassificationScript;
extern const EmbeddedText kComparisonScript;  // for both tasks

}  // namespace retina
