// A class of a data set, as it stands in annotations, shards, checkpoints and converted models.
#pragma once

#include <cstdint>
#include <string>
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

}  // namespace retina
