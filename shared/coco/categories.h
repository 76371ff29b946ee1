// The classes of a data set, as they stand in annotations, shards, checkpoints and converted
// models, and category ids <-> dense labels 0..K-1, the place in ascending id order. Files keep the
// original ids, everything inside the trainer uses labels.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace retina {

// A class; in shards and models the dense label is its place in the list, by ascending id.
struct Category {
  std::int64_t id = 0;  // the data set's own number
  std::string name{};
  std::string supercategory{};  // empty if the data set has none
};

using Categories = std::vector<Category>;

class JsonView;  // shared/base/json.h
class JsonWriter;
// Reads the list of our own files. Throws Error{kData} naming the place.
Categories read_categories(const JsonView& list);
// Writes the list under the key "categories".
void write_categories(JsonWriter& json, const Categories& categories);

class CategoryMap {
 public:
  CategoryMap() = default;
  // Accepts any order; sorts by id. Names become one_line(): those of all sources pass here. Throws
  // kData on duplicate ids.
  explicit CategoryMap(Categories categories);

  int size() const { return static_cast<int>(categories_.size()); }
  std::optional<int> label_of(std::int64_t category_id) const;
  // Returns a category. Precondition: 0 <= label < size().
  const Category& at(int label) const;
  // Returns two labels that share a name, for a warning: weights of other data sets are matched by
  // name. Nothing if all names differ.
  std::optional<std::pair<int, int>> equal_names() const;
  // Returns the categories in label order.
  const Categories& all() const { return categories_; }

 private:
  Categories categories_;
};

// Returns the 80 categories of COCO 2017, ids 1..90 with COCO's gaps (`retina-convert --categories
// coco`).
const Categories& coco_categories();

}  // namespace retina
