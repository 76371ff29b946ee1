// Classes in handwritten texts: lists of classes, tables of images and their classes.
#pragma once

#include <string>
#include <string_view>

namespace retina {

// Returns true for "n01440764", as ImageNet names its classes.
bool is_wordnet_id(std::string_view word);

// Returns the class that a text names: its first word if that is a WordNet id, else all of it
// without white space around it.
std::string class_of_text(std::string_view text);

}  // namespace retina
