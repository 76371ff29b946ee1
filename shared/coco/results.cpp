#include "shared/coco/results.h"

#include <filesystem>
#include <optional>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/file_spelling.h"
#include "shared/base/json.h"
#include "shared/base/memory.h"
#include "shared/base/printable.h"

namespace retina {
namespace {

[[noreturn]] void refuse_side(const std::string& path, std::size_t index, std::size_t side,
                              const CocoEntry& entry) {
  throw Error(ErrorKind::kData,
              cat(path, ": entry [", index, "]: bbox[", side, "]: got ", shortest(entry.bbox[side]),
                  ", want a ", side == 2 ? "width" : "height", " of at least 0"),
              "COCO's boxes are [x, y, width, height]");
}

}  // namespace

std::vector<Detection> read_results(const std::string& path, const ReadingPieces& pieces) {
  using Field = CocoField;
  constexpr std::size_t kShortestEntryBytes = 57;
  std::vector<Detection> all;
  // Untouched memory costs nothing: reserving too much is better than a move.
  std::error_code unknown;
  const std::uintmax_t size_bytes = std::filesystem::file_size(path, unknown);
  all.reserve(unknown ? 0 : size_bytes / kShortestEntryBytes);
  use_huge_pages(all);
  const auto take = [&](std::size_t, std::size_t index, std::span<const CocoEntry> entries) {
    for (const CocoEntry& entry : entries) {
      for (const std::size_t side : {2, 3}) {
        if (entry.bbox[side] < 0) refuse_side(path, index, side, entry);
      }
      all.push_back({.image_id = entry.image_id,
                     .category_id = entry.category_id,
                     .bbox = entry.bbox,
                     .score = entry.score});
      ++index;
    }
  };
  read_entries(path,
               {{.needed = {Field::kImageId, Field::kCategoryId, Field::kBbox, Field::kScore}}},
               take, pieces);
  return all;
}

FileNameOf file_name_finder(const Instances& truth) {
  std::unordered_map<std::int64_t, const std::string*> names;
  for (const ImageInfo& image : truth.images) names.emplace(image.id, &image.file_name);
  return [names = std::move(names)](std::int64_t image_id) -> std::string_view {
    const auto found = names.find(image_id);
    return found == names.end() ? std::string_view() : std::string_view(*found->second);
  };
}

namespace {

// Returns the first entries of a results file of ours; nothing for other files: the fields that
// read_results() skips may be anything there.
std::optional<JsonFile> first_entries(const std::string& path) {
  constexpr std::size_t kLookedAt = std::size_t{1} << 20;
  std::string start = read_start(path, kLookedAt);
  if (start.find("\"file_name\"") == std::string::npos) return std::nullopt;
  if (start.size() == kLookedAt) start = start.substr(0, start.rfind("},\n") + 1) + "]";
  try {
    return JsonFile::parse(start, path);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

void check_file_names(const std::string& path, const FileNameOf& file_name_of) {
  const std::optional<JsonFile> json = first_entries(path);
  if (!json) return;
  std::size_t named = 0, other = 0;
  std::string first;
  for (std::size_t i = 0; i < json->root().size(); ++i) {
    const JsonView entry = json->root().at(i);
    if (!entry.has("file_name") || !entry.at("file_name").raw().IsString()) continue;
    const std::int64_t id = entry.at("image_id").as_int();
    const std::string theirs = entry.at("file_name").as_string();
    const std::string ours(file_name_of(id));
    if (theirs.empty() || ours.empty()) continue;
    ++named;
    if (look_alike_key(theirs) == look_alike_key(ours)) continue;
    if (other++ == 0) {
      first = cat("entry [", i, "] has ", escaped(theirs), " as image ", id, ", which is ",
                  escaped(ours), " here");
    }
  }
  if (other * 2 <= named) return;
  throw Error(ErrorKind::kData, cat(path, ": are detections on other images (", first, ")"),
              "score them on the set that they were made on; where all files were renamed, remove "
              "\"file_name\" from the results");
}

void write_results(const std::string& path, const std::vector<Detection>& detections,
                   const FileNameOf& file_name_of) {
  std::string text = "[";
  text.reserve(detections.size() * 200 + 4);
  std::string name_field;  // of the image below: detections come image by image
  std::optional<std::int64_t> named_id;
  for (const Detection& detection : detections) {
    if (file_name_of && named_id != detection.image_id) {
      named_id = detection.image_id;
      const std::string_view name = file_name_of(detection.image_id);
      name_field = name.empty() ? "" : ", \"file_name\": " + JsonWriter().value(name).text();
    }
    text += text.size() == 1 ? "\n" : ",\n";
    text += "{\"image_id\": " + std::to_string(detection.image_id) +
            ", \"category_id\": " + std::to_string(detection.category_id) + ", \"bbox\": [";
    for (std::size_t i = 0; i < 4; ++i) {
      if (i > 0) text += ", ";
      text += shortest(detection.bbox[i]);
    }
    text += "], \"score\": " + shortest(detection.score) + name_field + "}";
  }
  text += "\n]\n";
  write_file_atomically(path, text);
}

}  // namespace retina
