// URLs in the place of folders. What opens one is shared/remote; here is what everybody needs who
// only prints one.
#pragma once

#include <string>
#include <string_view>

namespace retina {

// Whether the text begins as "SCHEME://".
bool is_url(std::string_view text);

// The URL without user name, password, query and fragment, where secrets are, and without slashes
// at its end; any other text as it is. Logs, errors, pages and configurations have this one.
std::string public_url(std::string_view text);

// Command lines give their URLs through here, so that no option holds a secret: returns
// public_url() of the text and remembers the whole, in this process alone. Throws kUsage where that
// is remembered with other secrets. Thread-safe, both.
std::string keep_secrets(const std::string& text);
// What was remembered of the URL; the text itself where nothing was.
std::string with_secrets(const std::string& text);

}  // namespace retina
