// A comparison of two classifiers as text: tables for a terminal, and compare.json.
#pragma once

#include <string>

#include "shared/evaluation/compare/classification_comparison.h"
#include "shared/evaluation/compare/comparison_text.h"

namespace retina {

// Returns tables for terminals: Top-1 with McNemar's test, top-5, loss; the classes by the size of
// their change; the images that only one has right. Control characters of names are escaped.
std::string classification_comparison_text(const ComparedNames& names,
                                           const ClassificationComparison& comparison);

// Returns the whole comparison as compare.json.
std::string classification_comparison_json(const ComparedNames& names,
                                           const ClassificationComparison& comparison);

// Returns the name of a category, or its id if it has none here.
std::string compared_class_name(const ClassificationComparison& comparison,
                                std::int64_t category_id);

// Returns the explanation of the intervals and of p for the reader.
std::string classification_interval_note(const ClassificationComparison& comparison);

// Returns "p 0.031" or "p < 0.001".
std::string p_text(double p);

}  // namespace retina
