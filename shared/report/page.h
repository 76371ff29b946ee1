// A page: one HTML file that needs nothing else. Its content is JSON inside it, drawn by the
// scripts of kit/ (elements, tables, charts, confusion matrix, viewer), the same for every page,
// and by the page's own short script, which names the parts. Follows the reader's light or dark
// setting.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/cli/cli.h"

namespace retina {

// Files that the build embedded in the program (kit/embed.cmake), joined.
struct EmbeddedText {
  const char* text;
  std::string_view sha256;  // hash of the text: 32 bytes
};

// Content of a page. Names and texts may hold anything: they stay text. Keys of `settings` are
// unique.
struct Page {
  std::string title{}, subtitle{};
  std::string summary{};  // the main numbers as lines of text, for readers without scripts
  std::string data{};     // JSON: the content for the script
  std::vector<std::pair<std::string, std::string>> settings{};
  std::vector<std::string> notes{};
  std::map<std::int64_t, std::string> jpegs{};  // image files, keyed by their ids in `data`
};

// Returns options as settings; unset ones (null) are not listed.
std::vector<std::pair<std::string, std::string>> settings_of(
    const std::vector<EffectiveOption>& options);

// Returns the page as text; the caller writes it (write_file_atomically). Its
// Content-Security-Policy forbids everything but the page's style, the two scripts by their hashes,
// and embedded images: anything that a name or an annotation smuggled into a page could neither run
// nor load or send anything. Style is allowed without a hash, as the bars' lengths are style
// attributes; with nothing to load it can do no more than look wrong. The title stands within the
// first 512 bytes.
std::string render_page(const Page& page, const EmbeddedText& script);

}  // namespace retina
