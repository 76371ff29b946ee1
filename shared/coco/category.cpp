#include "shared/coco/category.h"

#include "shared/base/json.h"

namespace retina {

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
