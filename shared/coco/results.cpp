#include "shared/coco/results.h"

#include <optional>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/coco/entry_reader.h"
#include "shared/coco/plain_results.h"

namespace retina {
namespace {

using Field = CocoField;

class ResultsReader : public EntryReader {
 public:
  std::vector<Detection> take(std::string_view text, const std::string& name) {
    name_ = name;
    read(text, name,
         {{.key = "",
           .needed = {Field::kImageId, Field::kCategoryId, Field::kBbox, Field::kScore}}});
    return std::move(out_);
  }

 private:
  void entry(std::size_t, std::size_t index, CocoEntry& entry) override {
    for (const std::size_t side : {2, 3}) {
      if (entry.bbox[side] >= 0) continue;
      throw Error(
          ErrorKind::kData,
          cat(name_, ": entry [", index, "]: bbox[", side, "]: got ", shortest(entry.bbox[side]),
              ", want a ", side == 2 ? "width" : "height", " of at least 0"),
          "COCO's boxes are [x, y, width, height]");
    }
    out_.push_back({.image_id = entry.image_id,
                    .category_id = entry.category_id,
                    .bbox = entry.bbox,
                    .score = entry.score});
  }

  std::string name_;
  std::vector<Detection> out_;
};

}  // namespace

std::vector<Detection> read_results(const std::string& path) {
  if (auto detections = read_plain_results(path)) return std::move(*detections);
  return parse_results(read_file(path), path);
}

std::vector<Detection> parse_results(std::string_view text, const std::string& name) {
  return ResultsReader().take(text, name);
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
