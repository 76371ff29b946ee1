// A comparison as text: tables for a terminal, and compare.json.
#pragma once

#include <optional>
#include <string>

#include "shared/base/json.h"
#include "shared/evaluation/compare/comparison.h"

namespace retina {

inline constexpr std::size_t kShownImages = 10;  // better images shown, and worse ones as many

// Names of the compared evaluations, in the user's words.
struct ComparedNames {
  std::string a{}, b{}, truth{};
  std::string page_a{}, page_b{};  // links from the comparison's page to their own; empty: none
};

// Writes the names' fields of compare.json.
void write_names(JsonWriter& json, const ComparedNames& names);

// Returns tables for terminals: the 12 numbers, the classes by the size of their change, the images
// that changed most. Control characters of names are escaped.
std::string comparison_text(const ComparedNames& names, const Comparison& comparison);

// Returns the whole comparison as compare.json, each image's scores too.
std::string comparison_json(const ComparedNames& names, const Comparison& comparison);

// Returns B - A of a metric for people: "+0.012"; "-" if there is nothing to find.
std::string change_text(double a, double b);

// Returns "-0.004 to +0.021"; empty without an interval.
std::string interval_text(const std::optional<Interval>& interval);

// Number of classes that have an interval, and number of these intervals that exclude 0.
struct IntervalCounts {
  std::size_t all = 0, clear = 0;
};
IntervalCounts count_intervals(const Comparison& comparison);

// Returns an image's mistakes as a mean over the IoU thresholds; mistakes_text() and gain_text()
// format it and its decrease.
double mean_mistakes(std::int64_t mistakes);
std::string mistakes_text(std::int64_t mistakes);
std::string gain_text(std::int64_t gain);

// Return the explanations for the reader of the intervals, and of the images' mistakes.
std::string interval_note(const Comparison& comparison);
std::string image_note();

}  // namespace retina
