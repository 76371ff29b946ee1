#include "convert/import/categories.h"

#include <string_view>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/foreign_content.h"
#include "shared/base/printable.h"
#include "shared/base/text_encoding.h"
#include "shared/coco/class_text.h"
#include "shared/coco/instances.h"

namespace retina {

ClassRows fit_class_rows(std::int64_t row_count, const CategoryMap& categories,
                         const std::string& subject, const std::string& source) {
  const auto count = static_cast<std::int64_t>(categories.size());
  RETINA_CHECK(count > 0);
  const std::int64_t smallest = categories.at(0).id;
  const std::int64_t largest = categories.at(categories.size() - 1).id;
  ClassRows result{.categories = categories.all()};
  const bool by_id = row_count == largest + 1 && smallest >= 0;
  if (!by_id && row_count != count && row_count != count + 1) {
    throw Error(ErrorKind::kConfig,
                cat(subject, ": its ", row_count, " classes do not fit ", source, " (got ", count,
                    " categories, the largest id is ", largest, "; want ", row_count, " or ",
                    row_count - 1, " categories, or a largest id of ", row_count - 1, ")"),
                "give the annotations file of the training with --categories");
  }
  const std::int64_t first_row = row_count == count ? 0 : 1;
  for (std::int64_t label = 0; label < count; ++label) {
    result.rows.push_back(by_id ? categories.at(static_cast<int>(label)).id : first_row + label);
  }
  return result;
}

CategoryMap read_import_categories(const std::string& choice) {
  if (choice == "coco") return CategoryMap(coco_categories());
  return CategoryMap(read_categories(choice));
}

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
                cat(choice, ": got ", foreign->what, ", want a class name a line"), foreign->hint);
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
