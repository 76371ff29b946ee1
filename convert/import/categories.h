// The class names of imported weights, and the map from rows of a foreign class layer to dense
// labels. torchvision's detectors take COCO's category ids as labels (91 rows, gaps included), most
// others dense ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/coco/categories.h"

namespace retina {

struct ClassRows {
  Categories categories{};           // by dense label: ascending id
  std::vector<std::int64_t> rows{};  // the foreign label of each
};

// Fits `row_count` classes to the categories: rows are labels as they stand (row_count categories),
// category ids (row_count is the largest id + 1), or labels after a background row (one more than
// categories). `source` names the categories. Throws Error{kConfig} naming both counts.
ClassRows fit_class_rows(std::int64_t row_count, const CategoryMap& categories,
                         const std::string& subject, const std::string& source);

// Reads the categories of `choice`: "coco" for the built-in table, or the path of an annotations
// file, which needs nothing but its categories.
CategoryMap read_import_categories(const std::string& choice);

// Returns the names of a classifier's classes, row by row. `choice` is "coco", or the path of a
// COCO annotations file, whose categories are taken in ascending id order, or of a text with a
// class a line, as coco-pack --classes takes it (class_text.h): their ids are 1, 2, ... A file is
// JSON if its first character other than white space is "{" or "[". Throws kNoInput, kIo, kData (no
// class, not UTF-8, or not JSON).
Categories read_class_names(const std::string& choice);

}  // namespace retina
