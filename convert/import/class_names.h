// What the classes of an imported classifier are called, row by row.
#pragma once

#include <string>

#include "shared/coco/category.h"

namespace retina {

// `choice` is "coco", or the path of a COCO annotations file, whose categories come in ascending id
// order, or of a text with a class a line, as coco-pack --classes takes it (class_text.h): their
// ids are 1, 2, ... A file is JSON where its first character other than white space is "{" or "[".
// Throws kNoInput, kIo, kData (no class, not UTF-8, or not JSON).
Categories read_class_names(const std::string& choice);

}  // namespace retina
