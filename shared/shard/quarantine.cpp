#include "shared/shard/quarantine.h"

#include <algorithm>
#include <map>

#include "shared/base/cat.h"
#include "shared/base/json.h"

namespace retina {

std::vector<HintCount> count_hints(const std::vector<QuarantinedImage>& images) {
  std::map<std::string, std::size_t> count_of;
  for (const QuarantinedImage& image : images) {
    if (!image.hint.empty()) ++count_of[image.hint];
  }
  std::vector<HintCount> hints;
  for (const auto& [hint, count] : count_of) hints.push_back({.hint = hint, .count = count});
  std::stable_sort(hints.begin(), hints.end(),
                   [](const HintCount& a, const HintCount& b) { return a.count > b.count; });
  return hints;
}

std::string encode_quarantine(const std::vector<QuarantinedImage>& images) {
  std::string text;
  for (const QuarantinedImage& image : images) {
    JsonWriter line;
    line.begin_object()
        .field("image_id", image.image_id)
        .field("file_name", image.file_name)
        .field("kind", image.kind)
        .field("reason", image.reason);
    if (!image.hint.empty()) line.field("hint", image.hint);
    line.end_object();
    text += line.text() + "\n";
  }
  return text;
}

std::vector<QuarantinedImage> decode_quarantine(std::string_view text, const std::string& name) {
  std::vector<QuarantinedImage> images;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const JsonFile line =
        JsonFile::parse(text.substr(0, end), cat(name, ": line ", images.size() + 1));
    const JsonView root = line.root();
    images.push_back({.image_id = root.at("image_id").as_int(),
                      .file_name = root.at("file_name").as_string(),
                      .kind = root.at("kind").as_string(),
                      .reason = root.at("reason").as_string(),
                      .hint = root.has("hint") ? root.at("hint").as_string() : ""});
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return images;
}

}  // namespace retina
