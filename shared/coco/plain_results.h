// The quick reader of results files: all cores, no parser of JSON in general. It reads the form
// that every program writes, and leaves everything else, and all errors, to the reader of
// results.cpp.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "shared/coco/results.h"

namespace retina {

struct PlainResultsOptions {
  int thread_count = 0;                            // 0: usable_cores(); the result is the same
  std::size_t piece_bytes = std::size_t{1} << 18;  // what a thread reads at once
};

// The detections in the file's order: an array of objects, each value a number or a list of numbers
// or, where the key is not one that counts, any JSON value whose strings are ASCII. Nothing when
// the file holds anything else, is damaged or cannot be read.
//
// The file is cut at bytes that look like the border of two records. A piece that ends exactly
// where the next one begins proves that this one began at a record, so by induction all do: text
// that looks like a border inside a string is found out.
std::optional<std::vector<Detection>> read_plain_results(const std::string& path,
                                                         const PlainResultsOptions& options = {});

}  // namespace retina
