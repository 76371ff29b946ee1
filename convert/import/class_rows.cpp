#include "convert/import/class_rows.h"

#include "shared/base/error.h"
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

}  // namespace retina
