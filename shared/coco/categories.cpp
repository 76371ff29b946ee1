#include "shared/coco/categories.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/json.h"
#include "shared/base/printable.h"

namespace retina {

CategoryMap::CategoryMap(Categories categories) : categories_(std::move(categories)) {
  for (Category& one : categories_) one.name = one_line(one.name);
  std::sort(categories_.begin(), categories_.end(),
            [](const Category& a, const Category& b) { return a.id < b.id; });
  for (std::size_t i = 1; i < categories_.size(); ++i) {
    if (categories_[i].id == categories_[i - 1].id) {
      throw Error(ErrorKind::kData, cat("categories: id ", categories_[i].id, " appears twice (\"",
                                        escaped(categories_[i - 1].name), "\" and \"",
                                        escaped(categories_[i].name), "\")"));
    }
  }
}

std::optional<int> CategoryMap::label_of(std::int64_t category_id) const {
  const auto found =
      std::lower_bound(categories_.begin(), categories_.end(), category_id,
                       [](const Category& category, std::int64_t id) { return category.id < id; });
  if (found == categories_.end() || found->id != category_id) return std::nullopt;
  return static_cast<int>(found - categories_.begin());
}

std::optional<std::pair<int, int>> CategoryMap::equal_names() const {
  std::unordered_map<std::string, int> label_of_name;
  for (int label = 0; label < size(); ++label) {
    const auto [first, is_new] = label_of_name.emplace(at(label).name, label);
    if (!is_new) return std::pair(first->second, label);
  }
  return std::nullopt;
}

const Category& CategoryMap::at(int label) const {
  RETINA_CHECK(label >= 0 && label < size(), "label ", label, " of ", size());
  return categories_[static_cast<std::size_t>(label)];
}

Categories read_categories(const JsonView& list) {
  Categories categories;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonView entry = list.at(i);
    categories.push_back({.id = entry.at("id").as_int(),
                          .name = entry.at("name").as_string(),
                          .supercategory = entry.at("supercategory").as_string()});
  }
  return categories;
}

void write_categories(JsonWriter& json, const Categories& categories) {
  json.key("categories").begin_array();
  for (const auto& [id, name, supercategory] : categories) {
    json.begin_object().field("id", id).field("name", name);
    json.field("supercategory", supercategory).end_object();
  }
  json.end_array();
}

}  // namespace retina
