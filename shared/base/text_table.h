// Tables and notes for terminals.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace retina {

using TextRow = std::vector<std::string>;

// Returns the number of characters of UTF-8 text: names need not be ASCII.
std::size_t character_count(const std::string& text);

// Columns of a table that are aligned to the left; the others are aligned to the right.
enum class ToTheLeft { kFirst, kFirstAndLast, kAll };

// Returns the rows as lines; a row may not be longer than the first. `rows` must not be empty.
std::string aligned_table(const std::vector<TextRow>& rows, ToTheLeft columns = ToTheLeft::kFirst);

// Returns the text with one sentence a line.
std::string sentence_lines(std::string text);

}  // namespace retina
