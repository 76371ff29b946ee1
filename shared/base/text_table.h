// Tables and notes for terminals.
#pragma once

#include <string>
#include <vector>

namespace retina {

using TextRow = std::vector<std::string>;

// Columns of a table that are aligned to the left; the others are aligned to the right.
enum class ToTheLeft { kFirst, kFirstAndLast, kAll };

// Returns the rows as lines; a row may not be longer than the first. `rows` must not be empty.
std::string aligned_table(const std::vector<TextRow>& rows, ToTheLeft columns = ToTheLeft::kFirst);

// Returns the text with one sentence a line.
std::string sentence_lines(std::string text);

}  // namespace retina
