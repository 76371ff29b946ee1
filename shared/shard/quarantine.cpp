#include "shared/shard/quarantine.h"

#include "shared/base/cat.h"
#include "shared/base/json.h"

namespace retina {

std::string encode_quarantine(const std::vector<QuarantinedImage>& images) {
  std::string text;
  for (const QuarantinedImage& image : images) {
    JsonWriter line;
    line.begin_object()
        .field("image_id", image.image_id)
        .field("file_name", image.file_name)
        .field("kind", image.kind)
        .field("reason", image.reason)
        .end_object();
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
    images.push_back({.image_id = line.root().at("image_id").as_int(),
                      .file_name = line.root().at("file_name").as_string(),
                      .kind = line.root().at("kind").as_string(),
                      .reason = line.root().at("reason").as_string()});
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return images;
}

}  // namespace retina
