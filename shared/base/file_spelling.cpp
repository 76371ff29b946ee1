#include "shared/base/file_spelling.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "shared/base/cat.h"
#include "shared/base/printable.h"
#include "shared/base/text_encoding.h"

namespace retina {
namespace {

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

}  // namespace

std::vector<std::string> other_spellings(const std::string& name, const std::string& folder_name) {
  std::vector<std::string> names = {name};
  const auto add = [&](const std::string& other) {
    if (std::find(names.begin(), names.end(), other) == names.end()) names.push_back(other);
  };
  add(with_slashes(name));
  add(without_escapes(names.back()));
  for (std::size_t i = 0, count = names.size(); i < count; ++i) {
    add(unicode_form(names[i], UTF8PROC_COMPOSE));
    add(unicode_form(names[i], UTF8PROC_DECOMPOSE));
  }
  for (std::size_t i = 0, count = names.size(); i < count; ++i) {
    if (last_part(names[i]).find('.') != std::string::npos) continue;
    for (const char* const ending : kEndings) add(names[i] + ending);
  }
  for (std::size_t i = 0, count = names.size(); i < count; ++i) {
    const std::string path = "/" + names[i], folder = "/" + folder_name + "/";
    for (std::size_t at = path.find(folder); at != std::string::npos;
         at = path.find(folder, at + 1)) {
      add(path.substr(at + folder.size()));
    }
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
  return unicode_form(with_slashes(name), UTF8PROC_COMPOSE);
}

std::string last_part(const std::string& name) {
  return name.substr(name.find_last_of("/\\") + 1);
}

std::string look_alike_key(const std::string& name) {
  const std::string last = last_part(without_escapes(name));
  const std::size_t dot = last.rfind('.');
  const std::string stem = dot == std::string::npos || dot == 0 ? last : last.substr(0, dot);
  return unicode_form(stem, UTF8PROC_COMPOSE | UTF8PROC_CASEFOLD);
}

bool is_clutter(std::string_view name) {
  static constexpr std::string_view kNames =
      "|thumbs.db|ehthumbs.db|ehthumbs_vista.db|desktop.ini|icon\r|__macosx|@eadir|@recycle|@tmp|#"
      "recycle|#snapshot|$recycle.bin|lost+found|system volume information|network trash "
      "folder|__pycache__|";
  constexpr std::array<std::string_view, 7> kGisEndings{".aux.xml", ".ovr", ".wld", ".tfw",
                                                        ".jgw",     ".pgw", ".prj"};
  const std::string lower = lower_case(name);
  return name.starts_with('.') || kNames.find("|" + lower + "|") != std::string_view::npos ||
         std::any_of(kGisEndings.begin(), kGisEndings.end(), [&](std::string_view ending) {
           return lower.size() > ending.size() && lower.ends_with(ending);
         });
}

}  // namespace retina
