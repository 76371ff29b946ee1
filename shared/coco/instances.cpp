#include "shared/coco/instances.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <unordered_map>
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

// Throws if two of the list's entries share an id, naming the lowest one.
template <class IdOf>
void check_unique(const std::string& name, const char* key, std::size_t count, const IdOf& id_of) {
  std::vector<std::int64_t> ids(count);
  for (std::size_t i = 0; i < count; ++i) ids[i] = id_of(i);
  std::sort(ids.begin(), ids.end());
  const auto twice = std::adjacent_find(ids.begin(), ids.end());
  if (twice == ids.end()) return;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; places.size() < 2; ++i) {
    if (id_of(i) == *twice) places.push_back(i);
  }
  fail(cat(name, ": ", key, "[", places[1], "]: id ", *twice, " is already used at ", key, "[",
           places[0], "]"));
}

std::vector<std::int64_t> ids_of_categories(const std::string& name, const Categories& categories) {
  if (categories.empty()) {
    fail(name + ": the data set has no classes (\"categories\" has no entries)");
  }
  check_unique(name, "categories", categories.size(),
               [&](std::size_t i) { return categories[i].id; });
  std::vector<std::int64_t> ids;
  for (const Category& category : categories) ids.push_back(category.id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

// Returns the place of an entry for an error; making the text takes longer than reading the entry.
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

// Maps ids to places among the images.
class ImagePlaces {
 public:
  explicit ImagePlaces(const std::vector<ImageInfo>& images) {
    const auto by_id = [](const ImageInfo& a, const ImageInfo& b) { return a.id < b.id; };
    const auto [first, last] = std::minmax_element(images.begin(), images.end(), by_id);
    if (first == images.end()) return;
    first_id_ = first->id;
    const std::uint64_t range = number_of(last->id) + 1;
    if (range > 0 && range / 8 <= images.size() && images.size() < kNone) {  // ids usually count up
      by_number_.resize(range, kNone);
      for (std::size_t i = 0; i < images.size(); ++i) {
        by_number_[number_of(images[i].id)] = static_cast<std::uint32_t>(i);
      }
      return;
    }
    for (std::size_t i = 0; i < images.size(); ++i) sorted_.emplace_back(images[i].id, i);
    std::sort(sorted_.begin(), sorted_.end());
  }

  std::optional<std::size_t> place_of(std::int64_t id) const {
    if (!by_number_.empty()) {
      const std::uint64_t number = number_of(id);
      const std::uint32_t place = number < by_number_.size() ? by_number_[number] : kNone;
      return place == kNone ? std::nullopt : std::optional<std::size_t>(place);
    }
    const auto found =
        std::lower_bound(sorted_.begin(), sorted_.end(), std::pair(id, std::size_t{0}));
    if (found == sorted_.end() || found->first != id) return std::nullopt;
    return found->second;
  }

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  std::uint64_t number_of(std::int64_t id) const {
    return static_cast<std::uint64_t>(id) - static_cast<std::uint64_t>(first_id_);
  }

  std::int64_t first_id_ = 0;
  std::vector<std::uint32_t> by_number_{};
  std::vector<std::pair<std::int64_t, std::size_t>> sorted_{};
};

// Collects what annotations refer to.
class References {
 public:
  // Adds the next annotation; returns the place of its image.
  std::size_t add(const Annotation& annotation, const ImagePlaces& images) {
    const std::size_t number = count_++;
    if (number == 0 || annotation.image_id != image_id_) {
      image_id_ = annotation.image_id;
      image_ = images.place_of(image_id_);
    }
    if (!image_ && !bad_image_) bad_image_ = {number, image_id_};
    if (number == 0 || annotation.category_id != category_id_) {
      category_id_ = annotation.category_id;
      categories_.emplace(category_id_, number);
    }
    return image_.value_or(0);
  }

  // Throws unless every reference is to something in the file.
  void check(const std::string& path, const std::vector<std::int64_t>& category_ids,
             const AnnotationList& all) const {
    std::optional<std::pair<std::size_t, std::int64_t>> bad_category;
    for (const auto& [id, first] : categories_) {
      if (std::binary_search(category_ids.begin(), category_ids.end(), id)) continue;
      if (!bad_category || first < bad_category->first) bad_category = {first, id};
    }
    if (!bad_image_ && !bad_category) return;
    const bool is_image = bad_image_ && (!bad_category || bad_image_->first <= bad_category->first);
    const auto& [number, id] = is_image ? *bad_image_ : *bad_category;
    fail(cat(path, ": annotations[", number, "] (id ", all.at(number).id,
             "): ", is_image ? "image_id " : "category_id ", id, " is not among the ",
             is_image ? "images" : "categories"));
  }

 private:
  std::size_t count_ = 0;
  std::int64_t image_id_ = 0, category_id_ = 0;  // of the last annotation
  std::optional<std::size_t> image_{};
  std::optional<std::pair<std::size_t, std::int64_t>> bad_image_{};  // the first one's number
  std::unordered_map<std::int64_t, std::size_t> categories_{};  // each with the first one's number
};

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
  std::vector<Annotation> annotations;
  AnnotationVector list(annotations);
  Instances all = read_instances_into(list, path, pieces);
  all.annotations = std::move(annotations);
  return all;
}

Instances read_instances_into(AnnotationList& annotations, const std::string& path,
                              const ReadingPieces& pieces) {
  const std::vector<CocoList> lists = lists_of_instances();
  constexpr std::size_t kShortestAnnotationBytes = 55;
  // Untouched memory costs nothing: reserving too much is better than a move.
  annotations.reserve(file_size_bytes(path) / kShortestAnnotationBytes);
  Instances all;
  const auto add_images = [&](std::size_t index, std::span<const CocoEntry> entries) {
    for (const CocoEntry& entry : entries) {
      all.images.push_back(
          image_of(entry, [&] { return entry_place(path, lists[kImages], index, entry); }));
      ++index;
    }
  };
  std::optional<ImagePlaces> places;
  bool read_ahead = false;
  References references;
  const auto take = [&](std::size_t list, std::size_t index, std::span<const CocoEntry> entries) {
    if (list == kImages) {
      if (!read_ahead) add_images(index, entries);
    } else if (list == kAnnotations) {
      if (!places) {
        if (all.images.empty()) {  // images come later in the file
          read_ahead = true;
          read_entries(
              path, {lists[kImages]},
              [&](std::size_t, std::size_t first, std::span<const CocoEntry> images) {
                add_images(first, images);
              },
              pieces);
        }
        places.emplace(all.images);
      }
      for (const CocoEntry& entry : entries) {
        const Annotation annotation = annotation_of(entry);
        annotations.add(annotation, references.add(annotation, *places));
        all.rotated_count += entry.is_rotated ? 1 : 0;
      }
    } else {
      for (const CocoEntry& entry : entries) all.categories.push_back(category_of(entry));
    }
  };
  read_entries(path, lists, take, pieces);
  places.reset();
  if (all.images.empty()) fail(path + ": the data set is empty (\"images\" has no entries)");
  const auto category_ids = ids_of_categories(path, all.categories);
  check_unique(path, "images", all.images.size(), [&](std::size_t i) { return all.images[i].id; });
  check_unique(path, "annotations", annotations.size(),
               [&](std::size_t i) { return annotations.at(i).id; });
  references.check(path, category_ids, annotations);
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
    json.begin_object().field("id", image.id).field("file_name", image.file_name);
    json.field("width", image.width).field("height", image.height).end_object();
  }
  json.end_array().key("annotations").begin_array();
  for (const Annotation& annotation : instances.annotations) {
    json.begin_object().field("id", annotation.id).field("image_id", annotation.image_id);
    json.field("category_id", annotation.category_id).list("bbox", annotation.bbox);
    json.field("area", annotation.area).field("iscrowd", annotation.iscrowd ? 1 : 0).end_object();
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
