// Words for the values of a type, on command lines and in files.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace retina {

// Values with their words, in the order in which --help lists them; each value and each word once.
template <class T>
using Choices = std::vector<std::pair<std::string, T>>;

// Returns the word of `value`, which may be an optional; empty if it has none.
template <class T, class Value>
std::string word_of(const Choices<T>& choices, const Value& value) {
  for (const auto& [word, one] : choices) {
    if (one == value) return word;
  }
  return "";
}

// Returns the value of `word`; unset if it is not one of the words.
template <class T>
std::optional<T> value_of(const Choices<T>& choices, const std::string& word) {
  for (const auto& [one, value] : choices) {
    if (one == word) return value;
  }
  return std::nullopt;
}

// Returns "sgd|adam|adamw", or the words with another separator.
template <class T>
std::string words_of(const Choices<T>& choices, const std::string& separator = "|") {
  std::string text;
  for (const auto& [word, value] : choices) text += (text.empty() ? "" : separator) + word;
  return text;
}

// Returns choices whose values are the words themselves.
inline Choices<std::string> plain_choices(const std::vector<std::string>& words) {
  Choices<std::string> choices;
  for (const std::string& word : words) choices.emplace_back(word, word);
  return choices;
}

}  // namespace retina
