// The head of every page that the programs write: title, style, and what a browser may do with it.
#pragma once

#include <string>
#include <string_view>

namespace retina {

struct PageHead {
  std::string_view title{};  // raw text
  std::string_view style{};  // CSS
  // SHA-256 in hexadecimal digits of the page's only inline script; empty: no script runs.
  std::string_view script_sha256{};
};

// From <!DOCTYPE html> to </head>. The Content-Security-Policy forbids everything but the page's
// own style, that script and embedded images: whatever a name or an annotation smuggled into a
// page, it could neither run nor load or send anything. Style is allowed without a hash, as the
// bars' lengths are style attributes; with nothing to load it can do no more than look wrong.
std::string page_head(const PageHead& head);

}  // namespace retina
