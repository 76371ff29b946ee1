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

// How many boxes or images each class has.
struct ClassSizes {
  std::vector<std::int64_t> of_label{};
  std::int64_t enough = 0;              // a class with fewer is named
  const char* one = "";                 // what is counted: "box"
  const char* many = "";                // "boxes"
  const char* whole = "";               // "boxes to train on"
  std::vector<std::size_t> by_count{};  // labels, the largest first
  std::size_t few = 0;                  // classes with fewer than `enough`

  std::int64_t most() const { return by_count.empty() ? 0 : of_label[by_count.front()]; }
};

// Fills by_count and few.
ClassSizes sorted_counts(ClassSizes counts);
Headline classes_headline(const ClassSizes& counts);
// Names the smallest classes, first the empty ones; `advice` follows. There are some.
Finding few_finding(const DataPageInput& input, const ClassSizes& counts, const char* advice);
// The largest classes; `total` is what all have together.
Histogram class_histogram(const DataPageInput& input, const ClassSizes& counts, std::int64_t total);

// The first ones: set_notes().
std::vector<Finding> noted_findings(const DataPageInput& input);

// Images that are in the set more than once, byte for byte.
struct Repeats {
  std::vector<std::vector<std::size_t>> groups{};  // of DataFacts::identical_images()
  std::int64_t image_count = 0;                    // images that repeat another one
  std::int64_t contradictory = 0;                  // groups whose boxes or classes differ
};

Repeats find_repeats(const DataFacts& facts);
Headline repeats_headline(const Repeats& repeats);
// Of groups that do not contradict themselves; there are some.
Finding repeats_finding(const Repeats& repeats);
// The groups whose boxes or classes differ come first.
Table identical_table(const DataPageInput& input, const Repeats& repeats);

Table size_table(const DataFacts& facts);

Headline quarantine_headline(const DataPageInput& input);
// There are some in quarantine.
Finding quarantine_finding(const DataPageInput& input);
Table quarantine_table(const DataPageInput& input);

// The samples with their boxes, or each with the name of its class.
Gallery sample_gallery(const DataPageInput& input, const std::string& note);

// The page of a set for classification; render_data_page() asks for it.
std::string render_class_page(const DataPageInput& input);

}  // namespace retina
