// The two containers of torch.save, opened: the pickle and the bytes of its storages.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "shared/checkpoint/foreign/pickle_reader.h"

namespace retina {

struct PthContainer {
  PickleDocument pickle{};
  // By the storages' keys; each has exactly as many bytes as its pickle says.
  std::map<std::string_view, std::string_view> storages{};
};

// Takes either container by its first bytes. Throws Error{kData}.
PthContainer open_container(std::string_view bytes, const std::string& subject);

}  // namespace retina
