#include "convert/import/class_names.h"

#include <string_view>

#include "convert/import/class_rows.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/foreign_content.h"
#include "shared/base/printable.h"
#include "shared/base/text_encoding.h"
#include "shared/coco/class_text.h"

namespace retina {

Categories read_class_names(const std::string& choice) {
  if (choice == "coco") return read_import_categories(choice).all();
  const std::string text = read_file(choice);
  std::string_view rest = text;
  if (rest.starts_with("\xEF\xBB\xBF")) rest.remove_prefix(3);
  const std::size_t start = rest.find_first_not_of(" \t\r\n");
  if (start != std::string_view::npos && (rest[start] == '{' || rest[start] == '[')) {
    return read_import_categories(choice).all();
  }
  if (const auto foreign = foreign_content(text)) {
    throw Error(ErrorKind::kData,
                cat(choice, ": got ", foreign->what, ", want a class name a line"), foreign->cure);
  }
  Categories categories;
  for (std::size_t line = 1; !rest.empty(); ++line) {
    const std::size_t end = rest.find('\n');
    const std::string name = class_of_text(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (name.empty()) continue;
    if (!is_utf8(name)) {
      throw Error(ErrorKind::kData,
                  cat(choice, ": line ", line, ": got \"", escaped(name), "\", want UTF-8"),
                  "save the file as UTF-8");
    }
    categories.push_back({.id = static_cast<std::int64_t>(categories.size()) + 1, .name = name});
  }
  return categories;
}

}  // namespace retina
