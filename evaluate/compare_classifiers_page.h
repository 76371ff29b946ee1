// The report page of a comparison of two classifiers.
#pragma once

#include <vector>

#include "shared/base/cli.h"
#include "shared/evaluation/compare/classification_comparison.h"
#include "shared/evaluation/compare/comparison_text.h"
#include "shared/report/report.h"

namespace retina {

Report make_classifiers_page(const ComparedNames& names, const ClassificationComparison& comparison,
                             const std::vector<EffectiveOption>& options);

}  // namespace retina
