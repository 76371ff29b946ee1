#include "shared/base/droppings.h"

#include <algorithm>

namespace retina {
namespace {

bool is_same(std::string_view name, std::string_view lower) {
  return std::equal(name.begin(), name.end(), lower.begin(), lower.end(), [](char c, char known) {
    return (c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c) == known;
  });
}

}  // namespace

bool is_dropping(std::string_view name) {
  if (name.starts_with('.')) return true;
  for (const char* known :
       {"thumbs.db", "ehthumbs.db", "ehthumbs_vista.db", "desktop.ini", "icon\r", "__macosx",
        "@eadir", "@recycle", "@tmp", "#recycle", "#snapshot", "$recycle.bin", "lost+found",
        "system volume information", "network trash folder", "__pycache__"}) {
    if (is_same(name, known)) return true;
  }
  return false;
}

}  // namespace retina
