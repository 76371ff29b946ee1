// A comparison of two classifiers as text: tables for a terminal, and compare.json.
#pragma once

#include <string>

#include "shared/evaluation/compare/classification_comparison.h"
#include "shared/evaluation/compare/comparison_text.h"

namespace retina {

// Top-1 with McNemar's test, top-5, loss; the classes by the size of their change; the images that
// only one has right. For terminals: control characters of names are escaped.
std::string classification_comparison_text(const ComparedNames& names,
                                           const ClassificationComparison& comparison);

// compare.json: all of it.
std::string classification_comparison_json(const ComparedNames& names,
                                           const ClassificationComparison& comparison);

// The name of a category, or its id where it has none here.
std::string compared_class_name(const ClassificationComparison& comparison,
                                std::int64_t category_id);

// What a reader must know about the intervals and about p.
std::string classification_interval_note(const ClassificationComparison& comparison);

// "p 0.031"; "p < 0.001".
std::string p_text(double p);

}  // namespace retina
