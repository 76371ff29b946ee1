// The report page of a comparison.
#pragma once

#include <vector>

#include "shared/base/cli.h"
#include "shared/evaluation/compare/comparison.h"
#include "shared/evaluation/compare/comparison_text.h"
#include "shared/report/report.h"

namespace retina {

Report make_compare_page(const ComparedNames& names, const Comparison& comparison,
                         const std::vector<EffectiveOption>& options);

}  // namespace retina
