#include "shared/base/image_name.h"

#include "shared/base/cat.h"
#include "shared/base/printable.h"

namespace retina {

std::string image_name(std::int64_t id, std::string_view file_name) {
  if (file_name.empty()) return cat("image ", id);
  return cat(escaped(file_name), " (image ", id, ")");
}

}  // namespace retina
