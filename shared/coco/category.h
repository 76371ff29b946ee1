// A class of a data set: what annotations, shards, checkpoints and converted models say about it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace retina {

// In shards and models the dense label is the place in the list, by ascending id.
struct Category {
  std::int64_t id = 0;  // the data set's own number
  std::string name{};
  std::string supercategory{};  // empty when the data set has none
};

using Categories = std::vector<Category>;

class JsonView;  // shared/base/json.h
class JsonWriter;
// The list in our own files. Throws Error{kData} naming the place.
Categories read_categories(const JsonView& list);
// The key "categories" with it.
void write_categories(JsonWriter& json, const Categories& categories);

}  // namespace retina
