#include "shared/checkpoint/foreign/printable.h"

namespace retina {
namespace {

constexpr std::size_t kShownBytes = 80;

}  // namespace

std::string printable(std::string_view text) {
  std::string shown(text.substr(0, kShownBytes));
  for (char& c : shown) {
    if (c < ' ' || c > '~') c = '?';
  }
  return shown;
}

}  // namespace retina
