// Other ways to write a file's name. Annotations are made on other systems: with backslashes, with
// accents composed as only the other system has them, with names escaped for a URL, with the path
// that the folder has there.
#pragma once

#include <string>
#include <vector>

namespace retina {

// What `name`, under which nothing was found in a folder called `folder_name`, may mean, the
// likeliest first: with slashes for backslashes, with URL escapes (%20) resolved, with accents
// composed or decomposed (Unicode's NFC, NFD), a name without ending with those of images; each
// also without what leads to the folder's own name. Nothing for a name that has none of these.
std::vector<std::string> other_spellings(const std::string& name, const std::string& folder_name);

// How the file `found` got another name than `name`: "a\\b.jpg is a/b.jpg"; says so where both look
// the same.
std::string describe_spelling(const std::string& name, const std::string& found);

// The same for names that a person would take for the same file: the last part of the path without
// its ending, in one case and one form of accents.
std::string look_alike_key(const std::string& name);

// With slashes and composed accents: the same for names that look the same.
std::string plain_spelling(const std::string& name);

// Without what leads to the last part; both kinds of slash.
std::string last_part(const std::string& name);

}  // namespace retina
