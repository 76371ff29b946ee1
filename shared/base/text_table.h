// Tables and notes for terminals.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace retina {

using TextRow = std::vector<std::string>;

// Characters of UTF-8 text: names need not be ASCII.
std::size_t character_count(const std::string& text);

// Which columns of a table are to the left, others to the right.
enum class ToTheLeft { kFirst, kFirstAndLast, kAll };

// The rows as lines, none longer than the first. `rows` not empty.
std::string aligned_table(const std::vector<TextRow>& rows, ToTheLeft columns = ToTheLeft::kFirst);

// The text with a sentence a line.
std::string sentence_lines(std::string text);

}  // namespace retina
