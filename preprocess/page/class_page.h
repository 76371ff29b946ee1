// The page of a classification set, see data_page.h.
#pragma once

#include <string>

#include "preprocess/page/data_page.h"

namespace retina {

std::string render_class_page(const DataPageInput& input);

}  // namespace retina
