#include "shared/coco/instances.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/coco/entry_reader.h"
#include "shared/coco/plain_instances.h"

namespace retina {
namespace {

using Field = CocoField;

// COCO's validation sets have 20 MB, its training sets 450.
constexpr std::uint64_t kLargestWhole = std::uint64_t{64} << 20;

enum ListNumber : std::size_t { kImages, kAnnotations, kCategories };

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorKind::kData, message);
}

CocoList list_of_categories(const char* key = "categories") {
  return {.key = key, .needed = {Field::kId, Field::kName}, .allowed = {Field::kSupercategory}};
}

std::vector<CocoList> lists_of_instances() {
  return {
      {.key = "images", .needed = {Field::kId, Field::kFileName, Field::kWidth, Field::kHeight}},
      {.key = "annotations",
       .needed = {Field::kId, Field::kImageId, Field::kCategoryId, Field::kBbox},
       .allowed = {Field::kArea, Field::kIscrowd}},
      list_of_categories()};
}

Category category_of(CocoEntry& entry) {
  return {.id = entry.id,
          .name = std::move(entry.name),
          .supercategory = std::move(entry.supercategory)};
}

// Ids in ascending order; throws when two entries share one.
template <class Entry>
std::vector<std::int64_t> unique_ids(const std::string& name, const std::vector<Entry>& entries,
                                     const char* key) {
  std::vector<std::pair<std::int64_t, std::size_t>> order;
  order.reserve(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) order.emplace_back(entries[i].id, i);
  std::sort(order.begin(), order.end());
  std::vector<std::int64_t> ids;
  ids.reserve(order.size());
  for (const auto& [id, index] : order) {
    if (!ids.empty() && ids.back() == id) {
      fail(cat(name, ": ", key, "[", index, "]: id ", id, " is already used at ", key, "[",
               order[ids.size() - 1].second, "]"));
    }
    ids.push_back(id);
  }
  return ids;
}

std::vector<std::int64_t> ids_of_categories(const std::string& name, const Categories& categories) {
  if (categories.empty()) {
    fail(name + ": the data set has no classes (\"categories\" has no entries)");
  }
  return unique_ids(name, categories, "categories");
}

class InstancesReader : public EntryReader {
 public:
  explicit InstancesReader(std::string name)
      : name_(std::move(name)), lists_(lists_of_instances()) {}

  Instances take(std::string_view text) {
    read(text, name_, lists_);
    return checked(std::move(out_));
  }

  Instances take_file(std::size_t piece_bytes) {
    stream(name_, piece_bytes, lists_);
    return checked(std::move(out_));
  }

  // Read already.
  Instances checked(Instances instances) {
    out_ = std::move(instances);
    check_references();
    return std::move(out_);
  }

 private:
  void entry(std::size_t list, std::size_t index, CocoEntry& entry) override {
    if (list == kImages) {
      out_.images.push_back({.id = entry.id,
                             .file_name = std::move(entry.file_name),
                             .width = side(entry.width, "width", index, entry),
                             .height = side(entry.height, "height", index, entry)});
      const std::string& file_name = out_.images.back().file_name;
      if (file_name.empty() || file_name.find('\0') != std::string::npos) {
        fail(place(name_, lists_[kImages], index, entry) +
             (file_name.empty() ? ": file_name is empty"
                                : ": file_name: has a NUL character, which no file's name has"));
      }
    } else if (list == kAnnotations) {
      out_.annotations.push_back(
          {.id = entry.id,
           .image_id = entry.image_id,
           .category_id = entry.category_id,
           .bbox = entry.bbox,
           .area = entry.has(Field::kArea) ? entry.area : entry.bbox[2] * entry.bbox[3],
           .iscrowd = entry.iscrowd});
    } else {
      out_.categories.push_back(category_of(entry));
    }
  }

  int side(std::int64_t pixels, const char* key, std::size_t index, const CocoEntry& entry) const {
    constexpr int kMaxSide = std::numeric_limits<int>::max();
    if (pixels < 1 || pixels > kMaxSide) {
      fail(cat(place(name_, lists_[kImages], index, entry), ": ", key, ": got ", pixels,
               ", want 1 to ", kMaxSide));
    }
    return static_cast<int>(pixels);
  }

  void check_references() const {
    if (out_.images.empty()) fail(name_ + ": the data set is empty (\"images\" has no entries)");
    const auto categories = ids_of_categories(name_, out_.categories);
    const auto images = unique_ids(name_, out_.images, "images");
    unique_ids(name_, out_.annotations, "annotations");
    for (std::size_t i = 0; i < out_.annotations.size(); ++i) {
      const Annotation& annotation = out_.annotations[i];
      if (!std::binary_search(images.begin(), images.end(), annotation.image_id)) {
        fail(cat(name_, ": annotations[", i, "] (id ", annotation.id, "): image_id ",
                 annotation.image_id, " is not among the images"));
      }
      if (!std::binary_search(categories.begin(), categories.end(), annotation.category_id)) {
        fail(cat(name_, ": annotations[", i, "] (id ", annotation.id, "): category_id ",
                 annotation.category_id, " is not among the categories"));
      }
    }
  }

  std::string name_;
  std::vector<CocoList> lists_;
  Instances out_;
};

class CategoriesReader : public EntryReader {
 public:
  Categories take(const std::string& path) {
    const std::string text = read_file(path);
    const std::size_t begin = text.find_first_of("[{");
    const bool is_list = begin != std::string::npos && text[begin] == '[';
    read(text, path, {list_of_categories(is_list ? "" : "categories")});
    ids_of_categories(path, out_);
    return std::move(out_);
  }

 private:
  void entry(std::size_t, std::size_t, CocoEntry& entry) override {
    out_.push_back(category_of(entry));
  }

  Categories out_;
};

// Of keys "rotation" those whose value is a number other than 0.
std::int64_t count_rotated(std::string_view text) {
  constexpr std::string_view kKey = "\"rotation\"";
  std::int64_t count = 0;
  for (std::size_t at = 0; (at = text.find(kKey, at)) != std::string_view::npos;) {
    at = text.find_first_not_of(" \t\r\n:", at + kKey.size());
    if (at == std::string_view::npos) break;
    double angle = 0;
    std::from_chars(text.data() + at, text.data() + text.size(), angle);
    count += angle != 0 ? 1 : 0;
  }
  return count;
}

}  // namespace

Categories read_categories(const std::string& path) {
  return CategoriesReader().take(path);
}

Instances read_instances(const std::string& path) {
  if (file_size_bytes(path) > kLargestWhole) return stream_instances(path);
  const std::string text = read_file(path);
  auto plain = parse_plain_instances(text);
  Instances instances =
      plain ? InstancesReader(path).checked(std::move(*plain)) : parse_instances(text, path);
  instances.rotated_count = count_rotated(text);
  return instances;
}

Instances stream_instances(const std::string& path, std::size_t piece_bytes) {
  return InstancesReader(path).take_file(piece_bytes);
}

Instances parse_instances(std::string_view text, const std::string& name) {
  return InstancesReader(name).take(text);
}

std::string instances_to_json(const Instances& instances, std::string_view description) {
  JsonWriter json;
  json.begin_object();
  if (!description.empty()) {
    json.key("info").begin_object().field("description", description).end_object();
  }
  json.key("images").begin_array();
  for (const ImageInfo& image : instances.images) {
    json.begin_object()
        .field("id", image.id)
        .field("file_name", image.file_name)
        .field("width", image.width)
        .field("height", image.height)
        .end_object();
  }
  json.end_array().key("annotations").begin_array();
  for (const Annotation& annotation : instances.annotations) {
    json.begin_object()
        .field("id", annotation.id)
        .field("image_id", annotation.image_id)
        .field("category_id", annotation.category_id)
        .key("bbox")
        .begin_array();
    for (const double number : annotation.bbox) json.value(number);
    json.end_array()
        .field("area", annotation.area)
        .field("iscrowd", annotation.iscrowd ? 1 : 0)
        .end_object();
  }
  json.end_array().key("categories").begin_array();
  for (const Category& category : instances.categories) {
    json.begin_object().field("id", category.id).field("name", category.name);
    if (!category.supercategory.empty()) json.field("supercategory", category.supercategory);
    json.end_object();
  }
  return json.end_array().end_object().text();
}

}  // namespace retina
