#include "shared/base/text_table.h"

#include <algorithm>

#include "shared/base/cat.h"
#include "shared/base/text_encoding.h"

namespace retina {

std::string aligned_table(const std::vector<TextRow>& rows, ToTheLeft columns) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const TextRow& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], character_count(row[i]));
    }
  }
  std::string text;
  for (const TextRow& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - character_count(row[i]), ' ');
      const bool is_last = columns == ToTheLeft::kFirstAndLast && i + 1 == row.size();
      const bool left = i == 0 || is_last || columns == ToTheLeft::kAll;
      line += cat(i == 0 ? "" : "  ", left ? row[i] + space : space + row[i]);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string sentence_lines(std::string text) {
  for (auto at = text.find(". "); at != std::string::npos; at = text.find(". ", at)) {
    text[++at] = '\n';
  }
  return text;
}

}  // namespace retina
