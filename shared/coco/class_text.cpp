#include "shared/coco/class_text.h"

#include <algorithm>

namespace retina {

bool is_wordnet_id(std::string_view word) {
  return word.size() == 9 && word.front() == 'n' &&
         std::all_of(word.begin() + 1, word.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string class_of_text(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t begin = std::min(text.find_first_not_of(kSpace), text.size());
  text = text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
  const std::string_view word = text.substr(0, text.find_first_of(kSpace));
  return std::string(is_wordnet_id(word) ? word : text);
}

}  // namespace retina
