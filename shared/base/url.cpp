#include "shared/base/url.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <mutex>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/error.h"

namespace retina {
namespace {

constexpr std::string_view kBehindScheme = "://";

bool is_scheme(std::string_view text) {
  return !text.empty() && std::isalpha(static_cast<unsigned char>(text.front())) &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) || c == '+' || c == '-' || c == '.';
         });
}

std::mutex g_urls_mutex;
std::map<std::string, std::string> g_whole_urls;  // by their public form; guarded by g_urls_mutex

}  // namespace

bool is_url(std::string_view text) {
  const std::size_t at = text.find(kBehindScheme);
  return at != std::string_view::npos && is_scheme(text.substr(0, at));
}

std::string public_url(std::string_view text) {
  if (!is_url(text)) return std::string(text);
  text = text.substr(0, text.find_first_of("?#"));
  const std::size_t host = text.find(kBehindScheme) + kBehindScheme.size();
  std::string_view rest = text.substr(host);
  // A password may have an @ of its own.
  const std::size_t user_end = rest.substr(0, rest.find('/')).rfind('@');
  if (user_end != std::string_view::npos) rest.remove_prefix(user_end + 1);
  while (rest.ends_with('/')) rest.remove_suffix(1);
  return std::string(text.substr(0, host)).append(rest);
}

std::string keep_secrets(const std::string& text) {
  std::string shown = public_url(text);
  if (shown == text) return shown;
  const std::lock_guard lock(g_urls_mutex);
  const auto [place, is_new] = g_whole_urls.emplace(shown, text);
  if (!is_new && place->second != text) {
    throw Error(ErrorKind::kUsage,
                cat(shown, ": is given with different queries, user names or passwords"),
                "give the same ones each time");
  }
  return shown;
}

std::string with_secrets(const std::string& text) {
  const std::lock_guard lock(g_urls_mutex);
  const auto found = g_whole_urls.find(text);
  return found == g_whole_urls.end() ? text : found->second;
}

}  // namespace retina
