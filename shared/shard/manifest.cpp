#include "shared/shard/manifest.h"

#include <array>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <optional>
#include <system_error>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/json.h"
#include "shared/base/printable.h"
#include "shared/shard/damaged.h"

namespace retina {
namespace {

constexpr const char* kFormat = "retina-batch shards";
// The text ends with its own hash, computed with zeros in place of these digits.
constexpr std::string_view kHashKey = "\"xxh3\": \"";
constexpr std::string_view kEnd = "\"\n}\n";
constexpr std::size_t kHashDigits = 16;
constexpr std::uint64_t kMostFileBytes = std::uint64_t{1} << 42;  // a shard of 1 TiB and a record

void write_file_fields(JsonWriter& json, const ManifestFile& file) {
  json.field("file", file.name).field("bytes", file.size_bytes).field("xxh3", hex64(file.xxh3));
}

void write_head(JsonWriter& json, const Manifest& manifest) {
  json.field("format", kFormat)
      .field("version", kManifestVersion)
      .field("task", word_of(kTasks, manifest.task));
  json.key("source").begin_object();
  json.field("annotations_bytes", manifest.annotations_size_bytes)
      .field("annotations_xxh3", hex64(manifest.annotations_xxh3))
      .end_object();
  json.key("options").begin_object();
  write_manifest_options(json, manifest.options);
  json.end_object();
}

// Returns the key of a category's count.
const char* label_count_key(Task task) {
  return task == Task::kClassification ? "images" : "boxes";
}

void write_counts(JsonWriter& json, const Manifest& manifest) {
  const ManifestCounts& counts = manifest.counts;
  json.key("counts").begin_object().field("images", counts.images);
  if (manifest.task == Task::kDetection) {
    json.field("boxes", counts.boxes).field("crowds", counts.crowds);
    json.field("degenerate", counts.degenerate).field("trainable", counts.trainable);
    json.field("images_without_boxes", counts.images_without_boxes);
  }
  json.field("rescaled", counts.rescaled).field("converted", counts.converted);
  json.field("quarantined", counts.quarantined);
  if (manifest.options.tile) {
    json.field("tiled_images", counts.tiled_images).field("whole_boxes", counts.whole_boxes);
    json.field("partial", counts.partial).field("cut", counts.cut);
  }
  json.end_object();
  if (manifest.task == Task::kClassification) return;
  json.key("box_sizes").begin_array();
  for (const auto& [bin, count] : manifest.box_sizes) {
    json.begin_array().value(bin.width).value(bin.height).value(bin.aspect);
    json.value(count).end_array();
  }
  json.end_array();
}

void write_categories(JsonWriter& json, const Manifest& manifest) {
  const Categories& categories = manifest.categories;
  RETINA_CHECK(categories.size() == manifest.label_counts.size());
  json.key("categories").begin_array();
  for (std::size_t label = 0; label < categories.size(); ++label) {
    json.begin_object()
        .field("label", static_cast<std::int64_t>(label))
        .field("id", categories[label].id)
        .field("name", categories[label].name)
        .field("supercategory", categories[label].supercategory)
        .field(label_count_key(manifest.task), manifest.label_counts[label])
        .end_object();
  }
  json.end_array();
}

// Reads the fields of a file of coco-pack's; rejects any other name and impossible sizes, since a
// URL may return anything.
ManifestFile read_file_fields(const JsonView& view, const std::string& name,
                              std::uint64_t least_bytes = 1) {
  ManifestFile file{.name = view.at("file").as_string(),
                    .size_bytes = view.at("bytes").as_uint(),
                    .xxh3 = parse_hex64(view.at("xxh3").as_string(), view.place() + ": xxh3")};
  if (file.name != name) {
    view.fail(cat("bad file name (got \"", escaped(file.name), "\", want \"", name, "\")"));
  }
  if (file.size_bytes < least_bytes || file.size_bytes > kMostFileBytes) {
    view.fail(cat("has an impossible size (got ", file.size_bytes, " bytes)"));
  }
  return file;
}

std::int64_t read_count(const JsonView& view, const char* key) {
  const std::int64_t count = view.at(key).as_int();
  if (count < 0) view.at(key).fail(cat("negative count (got ", count, ")"));
  return count;
}

int read_px(const JsonView& view, const char* key) {
  const std::int64_t value = read_count(view, key);
  if (value > std::numeric_limits<int>::max()) view.at(key).fail("is too large");
  return static_cast<int>(value);
}

ManifestCounts read_counts(const JsonView& view, Task task) {
  ManifestCounts counts{.images = read_count(view, "images"),
                        .rescaled = read_count(view, "rescaled"),
                        .converted = read_count(view, "converted"),
                        .quarantined = read_count(view, "quarantined")};
  if (task == Task::kClassification) return counts;
  counts.boxes = read_count(view, "boxes");
  counts.crowds = read_count(view, "crowds");
  counts.degenerate = read_count(view, "degenerate");
  counts.trainable = read_count(view, "trainable");
  counts.images_without_boxes = read_count(view, "images_without_boxes");
  if (!view.has("tiled_images")) return counts;
  counts.tiled_images = read_count(view, "tiled_images");
  counts.whole_boxes = read_count(view, "whole_boxes");
  counts.partial = read_count(view, "partial");
  counts.cut = read_count(view, "cut");
  return counts;
}

BoxHistogram read_box_sizes(const JsonView& view, std::int64_t trainable) {
  constexpr std::int64_t kMost = 4 * 31;  // the limit between two sides of an image
  BoxHistogram sizes;
  std::int64_t left = trainable;
  for (std::size_t i = 0; i < view.size(); ++i) {
    const JsonView item = view.at(i);
    const auto bin = [&](std::size_t place) {
      const std::int64_t value = item.at(place).as_int();
      if (value < -kMost || value > kMost) item.at(place).fail("is not a size");
      return static_cast<int>(value);
    };
    const std::int64_t count = item.at(3).as_int();
    if (count < 1 || count > left) item.at(3).fail("is not a number of boxes");
    left -= count;
    sizes[{.width = bin(0), .height = bin(1), .aspect = bin(2)}] += count;
  }
  return sizes;
}

std::optional<TileRule> read_tile_rule(const JsonView& options) {
  if (!options.has("tile")) return std::nullopt;
  const JsonView view = options.at("tile");
  const TileRule rule{.side_px = read_px(view, "side_px"),
                      .overlap = view.at("overlap").as_double(),
                      .visibility = view.at("visibility").as_double(),
                      .empty = view.at("empty").as_double()};
  if (rule.side_px == 0 || !(rule.overlap >= 0 && rule.overlap < 1)) view.fail("makes no tiles");
  return rule;
}

template <class T>
T read_word(const JsonView& view, const char* key, const Choices<T>& choices) {
  const std::string word = view.at(key).as_string();
  if (const auto value = value_of(choices, word)) return *value;
  view.at(key).fail(cat("got \"", word, "\", want ", words_of(choices)));
}

void read_categories(const JsonView& view, Manifest& manifest) {
  for (std::size_t i = 0; i < view.size(); ++i) {
    const JsonView item = view.at(i);
    if (item.at("label").as_int() != static_cast<std::int64_t>(i)) {
      item.at("label").fail(cat("labels must count from 0 (want ", i, ")"));
    }
    manifest.categories.push_back({.id = item.at("id").as_int(),
                                   .name = item.at("name").as_string(),
                                   .supercategory = item.at("supercategory").as_string()});
    manifest.label_counts.push_back(read_count(item, label_count_key(manifest.task)));
  }
}

std::vector<ManifestShard> read_shards(const JsonView& view) {
  std::vector<ManifestShard> shards;
  for (std::size_t i = 0; i < view.size(); ++i) {
    const JsonView item = view.at(i);
    shards.push_back(
        {.file = read_file_fields(item, shard_file_name(i, view.size())),
         .record_count = read_count(item, "records"),
         .tree_xxh3 = parse_hex64(item.at("tree_xxh3").as_string(), item.place() + ": tree_xxh3")});
  }
  return shards;
}

// Checks the format before anything else in the text is trusted; returns the set's task.
Task check_format(const JsonView& root) {
  const std::string format = root.at("format").as_string();
  if (format != kFormat) {
    root.fail(cat("is not a shard manifest (got format \"", escaped(format), "\", want \"", kFormat,
                  "\")"));
  }
  const std::int64_t version = root.at("version").as_int();
  if (version != kManifestVersion) {
    fail_version(root.place(), "format", version, kManifestVersion);
  }
  const std::string word = root.at("task").as_string();
  const std::optional<Task> task = value_of(kTasks, word);
  if (!task) {
    root.fail(cat("was made for another task (got \"", escaped(word), "\", want ", words_of(kTasks),
                  ")"));
  }
  return *task;
}

void check_hash(std::string_view text, const std::string& name) {
  const std::size_t tail = kHashDigits + kEnd.size();
  std::string blank(text);
  bool intact = text.size() > kHashKey.size() + tail && text.ends_with(kEnd) &&
                text.substr(text.size() - tail - kHashKey.size(), kHashKey.size()) == kHashKey;
  if (intact) {
    const std::size_t at = text.size() - tail;
    blank.replace(at, kHashDigits, kHashDigits, '0');
    intact = text.substr(at, kHashDigits) == hex64(xxh3(blank));
  }
  if (!intact) {
    fail_damaged(name, "is damaged or was edited (its checksum does not match)",
                 "copy the data set again, or pack it again with coco-pack");
  }
}

}  // namespace

void write_manifest_options(JsonWriter& json, const ManifestOptions& options) {
  json.field("shard_size_bytes", options.shard_size_bytes);
  json.field("max_side_px", options.max_side_px).field("quality", options.quality);
  json.field("encoding", word_of(kImageEncodings, options.encoding));
  json.field("convert", options.convert).field("exif", word_of(kExifPolicies, options.exif));
  json.field("check", word_of(kImageChecks, options.check)).field("stretch", options.stretch);
  json.field("part", options.part).field("pack_part", options.pack_part);
  if (options.tile) {
    const TileRule& tile = *options.tile;
    json.key("tile").begin_object().field("side_px", tile.side_px).field("overlap", tile.overlap);
    json.field("visibility", tile.visibility).field("empty", tile.empty).end_object();
  }
}

std::string encode_manifest(const Manifest& manifest) {
  JsonWriter json;
  json.begin_object();
  write_head(json, manifest);
  write_categories(json, manifest);
  write_counts(json, manifest);
  json.key("shards").begin_array();
  for (const ManifestShard& shard : manifest.shards) {
    json.begin_object();
    write_file_fields(json, shard.file);
    json.field("records", shard.record_count).field("tree_xxh3", hex64(shard.tree_xxh3));
    json.end_object();
  }
  json.end_array();
  json.list("notes", manifest.notes).key("index").begin_object();
  write_file_fields(json, manifest.index);
  json.end_object().key("quarantine").begin_object();
  write_file_fields(json, manifest.quarantine);
  json.end_object();
  json.field("xxh3", std::string(kHashDigits, '0')).end_object();
  std::string text = json.pretty_text();
  RETINA_CHECK(text.ends_with(kEnd), "manifest ends unexpectedly");
  text.replace(text.size() - kEnd.size() - kHashDigits, kHashDigits, hex64(xxh3(text)));
  return text;
}

ManifestOptions read_manifest_options(const JsonView& view) {
  return {.shard_size_bytes = view.at("shard_size_bytes").as_uint(),
          .max_side_px = read_px(view, "max_side_px"),
          .quality = read_px(view, "quality"),
          .encoding = read_word(view, "encoding", kImageEncodings),
          .convert = view.at("convert").as_bool(),
          .exif = read_word(view, "exif", kExifPolicies),
          .check = read_word(view, "check", kImageChecks),
          .stretch = view.at("stretch").as_string(),
          .part = view.at("part").as_string(),
          .tile = read_tile_rule(view),
          .pack_part = view.at("pack_part").as_string()};
}

std::string manifest_hash(const Manifest& manifest) {
  return hex64(xxh3(encode_manifest(manifest)));
}

Manifest decode_manifest(std::string_view text, const std::string& name) {
  const JsonFile file = JsonFile::parse(text, name);
  const JsonView root = file.root();
  const Task task = check_format(root);
  check_hash(text, name);
  const JsonView source = root.at("source");
  const JsonView options = root.at("options");
  Manifest manifest{.task = task,
                    .annotations_size_bytes = source.at("annotations_bytes").as_uint(),
                    .annotations_xxh3 = parse_hex64(source.at("annotations_xxh3").as_string(),
                                                    name + ": annotations_xxh3"),
                    .options = read_manifest_options(options),
                    .counts = read_counts(root.at("counts"), task),
                    .shards = read_shards(root.at("shards")),
                    .index = read_file_fields(root.at("index"), kIndexFile),
                    .quarantine = read_file_fields(root.at("quarantine"), kQuarantineFile, 0)};
  read_categories(root.at("categories"), manifest);
  if (task == Task::kDetection) {
    manifest.box_sizes = read_box_sizes(root.at("box_sizes"), manifest.counts.trainable);
  }
  const JsonView notes = root.at("notes");
  for (std::size_t i = 0; i < notes.size(); ++i) {
    manifest.notes.push_back(escaped(notes.at(i).as_string(), kWholeText));
  }
  return manifest;
}

Manifest read_manifest(const std::string& folder) {
  require_folder(folder, "give the folder that coco-pack --output wrote");
  const std::string path = folder + "/" + kManifestFile;
  if (!path_exists(path)) {
    const std::string part = folder + "/train";  // a part of coco-pack --split
    throw Error(
        ErrorKind::kNoInput, cat(path, ": does not exist: this is not a packed data set"),
        path_exists(cat(part, "/", kManifestFile))
            ? cat("give one of the sets in it: ", part, " or ", folder, "/validation")
            : "pack the images with coco-pack; if it was interrupted, run the same command again");
  }
  return decode_manifest(read_file(path), path);
}

void check_task(const Manifest& manifest, Task wanted, const std::string& folder) {
  if (manifest.task == wanted) return;
  throw Error(ErrorKind::kConfig,
              cat(folder, ": is a ", word_of(kTasks, manifest.task), " set (want ",
                  word_of(kTasks, wanted), ")"),
              wanted == Task::kDetection
                  ? "give a set of images with boxes: coco-pack --format coco, voc, csv, yolo, "
                    "xview or dota"
                  : "give a set of images with classes: coco-pack --format folders or cifar10");
}

bool is_manifest(const std::string& path) {
  std::error_code code;
  if (!std::filesystem::is_regular_file(path, code)) return false;
  return read_file(path).find(cat("\"format\": \"", kFormat, "\"")) != std::string::npos;
}

std::string shard_file_name(std::size_t shard, std::size_t shard_count) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "shard-%05zu-of-%05zu.lmdb", shard, shard_count);
  return text.data();
}

bool is_shard_file_name(const std::string& name) {
  return name_matches(name, "shard-[0-9]+-of-[0-9]+\\.lmdb");
}

}  // namespace retina
