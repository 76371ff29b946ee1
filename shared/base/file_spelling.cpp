#include "shared/base/file_spelling.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "shared/base/cat.h"
#include "shared/base/printable.h"

namespace retina {
namespace {

bool is_ascii(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x80; });
}

// Returns `text` in another of Unicode's normal forms; `text` itself if it is not UTF-8.
std::string mapped(const std::string& text, int options) {
  utf8proc_uint8_t* result = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &result,
                   static_cast<utf8proc_option_t>(options | UTF8PROC_STABLE));
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owner(result, std::free);
  if (size < 0) return text;
  return {reinterpret_cast<const char*>(result), static_cast<std::size_t>(size)};
}

std::string with_slashes(std::string name) {
  std::replace(name.begin(), name.end(), '\\', '/');
  return name;
}

// Returns `name` with escapes such as "%20" replaced by their bytes.
std::string without_escapes(const std::string& name) {
  std::string out;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const char* const digits = name.data() + i + 1;
    unsigned char byte = 0;
    if (name[i] == '%' && i + 2 < name.size() &&
        std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2 && byte != 0) {
      out += static_cast<char>(byte);
      i += 2;
    } else {
      out += name[i];
    }
  }
  return out;
}

// Endings to try: some tools write names without one.
constexpr std::array kEndings = {".jpg", ".jpeg", ".png", ".JPG", ".JPEG", ".PNG"};

// Returns what follows the folder's own name, for each place where that is a part of the path.
std::vector<std::string> inside(const std::string& name, const std::string& folder_name) {
  std::vector<std::string> rests;
  std::size_t begin = 0;
  for (std::size_t end = name.find('/'); end != std::string::npos; end = name.find('/', begin)) {
    if (name.compare(begin, end - begin, folder_name) == 0) rests.push_back(name.substr(end + 1));
    begin = end + 1;
  }
  return rests;
}

}  // namespace

std::vector<std::string> other_spellings(const std::string& name, const std::string& folder_name) {
  std::vector<std::string> names = {name};
  const auto add = [&](const std::string& other) {
    if (std::find(names.begin(), names.end(), other) == names.end()) names.push_back(other);
  };
  add(with_slashes(name));
  add(without_escapes(names.back()));
  for (std::size_t i = 0, count = names.size(); i < count; ++i) {
    if (is_ascii(names[i])) continue;
    add(mapped(names[i], UTF8PROC_COMPOSE));
    add(mapped(names[i], UTF8PROC_DECOMPOSE));
  }
  for (std::size_t i = 0, count = names.size(); i < count; ++i) {
    if (last_part(names[i]).find('.') != std::string::npos) continue;
    for (const char* const ending : kEndings) add(names[i] + ending);
  }
  for (std::size_t i = 0, count = names.size(); i < count; ++i) {
    for (const std::string& rest : inside(names[i], folder_name)) add(rest);
  }
  names.erase(names.begin());
  return names;
}

std::string describe_spelling(const std::string& name, const std::string& found) {
  const bool differs_in_accents =
      name.find('\\') == std::string::npos && plain_spelling(name) == plain_spelling(found);
  return cat(escaped(name), " is ", escaped(found),
             differs_in_accents ? ", its accents in another Unicode form" : "");
}

std::string plain_spelling(const std::string& name) {
  return mapped(with_slashes(name), UTF8PROC_COMPOSE);
}

std::string last_part(const std::string& name) {
  return name.substr(name.find_last_of("/\\") + 1);
}

std::string look_alike_key(const std::string& name) {
  const std::string last = last_part(without_escapes(name));
  const std::size_t dot = last.rfind('.');
  const std::string stem = dot == std::string::npos || dot == 0 ? last : last.substr(0, dot);
  return mapped(stem, UTF8PROC_COMPOSE | UTF8PROC_CASEFOLD);
}

bool is_dropping(std::string_view name) {
  if (name.starts_with('.')) return true;
  const auto is_same = [](char c, char lower) {
    return (c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c) == lower;
  };
  for (const std::string_view known :
       {"thumbs.db", "ehthumbs.db", "ehthumbs_vista.db", "desktop.ini", "icon\r", "__macosx",
        "@eadir", "@recycle", "@tmp", "#recycle", "#snapshot", "$recycle.bin", "lost+found",
        "system volume information", "network trash folder", "__pycache__"}) {
    if (std::equal(name.begin(), name.end(), known.begin(), known.end(), is_same)) return true;
  }
  for (const std::string_view ending :
       {".aux.xml", ".ovr", ".wld", ".tfw", ".jgw", ".pgw", ".prj"}) {
    if (name.size() > ending.size() &&
        std::equal(ending.rbegin(), ending.rend(), name.rbegin(),
                   [&](char lower, char c) { return is_same(c, lower); })) {
      return true;
    }
  }
  return false;
}

}  // namespace retina
