#include "shared/coco/instances.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/json.h"

namespace retina {
namespace {

using Field = CocoField;

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

Category category_of(const CocoEntry& entry) {
  return {.id = entry.id,
          .name = std::string(entry.name),
          .supercategory = std::string(entry.supercategory)};
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

// Says where an entry is: a text for errors alone, which takes longer than reading the entry.
using PlaceText = std::function<std::string()>;

int side_px(std::int64_t pixels, const char* key, const PlaceText& place) {
  constexpr int kMaxSide = std::numeric_limits<int>::max();
  if (pixels < 1 || pixels > kMaxSide) {
    fail(cat(place(), ": ", key, ": got ", pixels, ", want 1 to ", kMaxSide));
  }
  return static_cast<int>(pixels);
}

ImageInfo image_of(const CocoEntry& entry, const PlaceText& place) {
  ImageInfo image{.id = entry.id,
                  .file_name = std::string(entry.file_name),
                  .width = side_px(entry.width, "width", place),
                  .height = side_px(entry.height, "height", place)};
  if (image.file_name.empty()) fail(place() + ": file_name is empty");
  if (image.file_name.find('\0') != std::string::npos) {
    fail(place() + ": file_name: has a NUL character, which no file's name has");
  }
  return image;
}

Annotation annotation_of(const CocoEntry& entry) {
  return {.id = entry.id,
          .image_id = entry.image_id,
          .category_id = entry.category_id,
          .bbox = entry.bbox,
          .area = entry.has(Field::kArea) ? entry.area : entry.bbox[2] * entry.bbox[3],
          .iscrowd = entry.iscrowd};
}

// Every id once, every reference to something in the file.
void check_ids(const std::string& path, const Instances& all) {
  if (all.images.empty()) fail(path + ": the data set is empty (\"images\" has no entries)");
  const auto categories = ids_of_categories(path, all.categories);
  const auto images = unique_ids(path, all.images, "images");
  unique_ids(path, all.annotations, "annotations");
  for (std::size_t i = 0; i < all.annotations.size(); ++i) {
    const Annotation& annotation = all.annotations[i];
    const auto check = [&](const std::vector<std::int64_t>& ids, std::int64_t id,
                           const char* what) {
      if (std::binary_search(ids.begin(), ids.end(), id)) return;
      const char* const key = &ids == &images ? "image_id" : "category_id";
      fail(cat(path, ": annotations[", i, "] (id ", annotation.id, "): ", key, " ", id,
               " is not among the ", what));
    };
    check(images, annotation.image_id, "images");
    check(categories, annotation.category_id, "categories");
  }
}

}  // namespace

Categories read_categories(const std::string& path) {
  constexpr std::size_t kLookedAt = 1 << 16;
  const std::string start = read_start(path, kLookedAt);
  const std::size_t begin = start.find_first_of("[{");
  const bool is_list = begin != std::string::npos && start[begin] == '[';
  Categories categories;
  read_entries(path, {list_of_categories(is_list ? "" : "categories")},
               [&](std::size_t, std::size_t, std::span<const CocoEntry> entries) {
                 for (const CocoEntry& entry : entries) categories.push_back(category_of(entry));
               });
  ids_of_categories(path, categories);
  return categories;
}

Instances read_instances(const std::string& path, const ReadingPieces& pieces) {
  const std::vector<CocoList> lists = lists_of_instances();
  constexpr std::size_t kShortestAnnotationBytes = 55;
  Instances all;
  // Memory that is never written to costs nothing: rather too much of it than a move.
  all.annotations.reserve(file_size_bytes(path) / kShortestAnnotationBytes);
  const auto take = [&](std::size_t list, std::size_t index, std::span<const CocoEntry> entries) {
    for (const CocoEntry& entry : entries) {
      if (list == kImages) {
        all.images.push_back(
            image_of(entry, [&] { return entry_place(path, lists[list], index, entry); }));
      } else if (list == kAnnotations) {
        all.annotations.push_back(annotation_of(entry));
        all.rotated_count += entry.is_rotated ? 1 : 0;
      } else {
        all.categories.push_back(category_of(entry));
      }
      ++index;
    }
  };
  read_entries(path, lists, take, pieces);
  check_ids(path, all);
  return all;
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
