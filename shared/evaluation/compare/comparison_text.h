// A comparison as text: tables for a terminal, and compare.json.
#pragma once

#include <optional>
#include <string>

#include "shared/base/json.h"
#include "shared/evaluation/compare/comparison.h"

namespace retina {

inline constexpr std::size_t kShownImages = 10;  // of those that got better, and of the worse ones

// What was compared, in the user's words.
struct ComparedNames {
  std::string a{}, b{}, truth{};
  std::string page_a{}, page_b{};  // from the comparison's page to their own; empty: none
};

// The fields of compare.json that have them.
void write_names(JsonWriter& json, const ComparedNames& names);

// The 12 numbers, the classes by the size of their change, the images that changed most. For
// terminals: control characters of names are escaped.
std::string comparison_text(const ComparedNames& names, const Comparison& comparison);

// compare.json: all of it, each image's scores too.
std::string comparison_json(const ComparedNames& names, const Comparison& comparison);

// B - A of a metric for people: "+0.012"; "-" where there is nothing to find.
std::string change_text(double a, double b);

// "-0.004 to +0.021"; empty without one.
std::string interval_text(const std::optional<Interval>& interval);

// How many of the classes have an interval, and how many of these exclude 0.
struct IntervalCounts {
  std::size_t all = 0, clear = 0;
};
IntervalCounts count_intervals(const Comparison& comparison);

// An image's mistakes as a mean over the IoU thresholds, and how many fewer they got.
double mean_mistakes(std::int64_t mistakes);
std::string mistakes_text(std::int64_t mistakes);
std::string gain_text(std::int64_t gain);

// What a reader must know about the intervals, and about the images' mistakes.
std::string interval_note(const Comparison& comparison);
std::string image_note();

}  // namespace retina
