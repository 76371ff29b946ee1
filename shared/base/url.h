// URLs in place of folders. shared/remote opens them; this file is for code that only prints them.
#pragma once

#include <string>
#include <string_view>

namespace retina {

// Returns true if the text begins as "SCHEME://".
bool is_url(std::string_view text);

// Returns the URL without user name, password, query and fragment, which may hold secrets, and
// without slashes at its end; any other text as it is. Logs, errors, pages and configurations show
// this form.
std::string public_url(std::string_view text);

// Keeps secrets out of options, for every URL of a command line: returns public_url() of the text
// and remembers the whole, in this process alone. Throws kUsage if the same public URL is
// remembered with other secrets. Thread-safe, like with_secrets().
std::string keep_secrets(const std::string& text);
// Returns the URL with the secrets that were remembered; the text itself if there are none.
std::string with_secrets(const std::string& text);

}  // namespace retina
