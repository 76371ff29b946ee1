// What the pages of detection and of classification sets have in common: numbers as text, bars,
// tables, samples.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "preprocess/page/data_facts.h"
#include "preprocess/page/data_page.h"
#include "shared/report/report.h"

namespace retina {

inline constexpr const char* kDataPageTitle = "Data set";
inline constexpr std::size_t kDrawnClasses = 80, kClassesSideBySide = 8;
inline constexpr std::size_t kNamedClasses = 12;

// 0 of nothing.
double share(std::int64_t part, std::int64_t whole);
std::string percent(double value);        // of a share
std::string grouped(std::int64_t count);  // 118287 as 118,287
std::string grouped(std::int64_t count, const char* one, const char* many);

// Counts between edges: bar i holds edges[i] <= value < edges[i + 1], the first and the last bar
// what lies outside.
struct Binned {
  std::vector<double> edges{};
  std::vector<std::int64_t> counts{};

  explicit Binned(std::vector<double> all);
  void add(double value);
  // Empty bars at either end, all but one.
  void trim();
};

// low, low * growth, ... up to the first one above `high`.
std::vector<double> powers(double low, double high, double growth);
void add_bars(Histogram& histogram, const Binned& bins, const std::string& unit);

Histogram aspect_histogram(const DataFacts& facts);
Histogram image_size_histogram(const DataFacts& facts);

// Of the groups of identical_images(): do their boxes or classes differ?
bool truth_differs(const DataFacts& facts, const std::vector<std::size_t>& group);
// Images that repeat another one.
std::int64_t repeated_images(const std::vector<std::vector<std::size_t>>& groups);
// The groups whose boxes or classes differ come first.
Table identical_table(const DataPageInput& input,
                      const std::vector<std::vector<std::size_t>>& groups);

Table size_table(const DataFacts& facts);

// There are some in quarantine.
Finding quarantine_finding(const DataPageInput& input);
Table quarantine_table(const DataPageInput& input);

// The samples with their boxes, or each with the name of its class.
Gallery sample_gallery(const DataPageInput& input, const std::string& note);

}  // namespace retina
