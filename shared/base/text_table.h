// Tables and notes for terminals.
#pragma once

#include <string>
#include <vector>

namespace retina {

using TextRow = std::vector<std::string>;

// Which columns of a table are to the left, others to the right.
enum class ToTheLeft { kFirst, kFirstAndLast, kAll };

// The rows as lines, none longer than the first. `rows` not empty.
std::string aligned_table(const std::vector<TextRow>& rows, ToTheLeft columns = ToTheLeft::kFirst);

// The text with a sentence a line.
std::string sentence_lines(std::string text);

}  // namespace retina
