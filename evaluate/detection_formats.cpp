#include "evaluate/detection_formats.h"

#include <array>
#include <charconv>
#include <filesystem>
#include <map>

#include "shared/base/error.h"
#include "shared/base/json.h"
#include "shared/base/printable.h"
#include "shared/base/text_encoding.h"

namespace retina {
namespace {

namespace fs = std::filesystem;

constexpr int kShareDigits = 6;  // Ultralytics' precision

int label_of(const Detection& one, const CategoryMap& categories) {
  return categories.label_of(one.category_id).value();
}

std::string csv_field(const std::string& name) {
  const std::string text = begins_formula(name) ? "'" + name : name;
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + '"';
}

}  // namespace

std::string rounded(double value, int digits) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value,
                                 std::chars_format::general, digits);
  return {text.data(), end.ptr};
}

std::string yolo_label_name(const std::string& image_name) {
  fs::path label;
  for (const fs::path& part : fs::path(image_name).relative_path()) {
    if (part != "." && part != "..") label /= part;
  }
  return label.replace_extension(".txt").string();
}

void check_yolo_label_names(const std::vector<std::string>& image_names) {
  constexpr const char* kHint = "rename it, or give --output-format csv";
  constexpr std::size_t kLongestName = 251;  // 255 with .tmp at the end
  std::map<std::string, std::string> image_of;
  const auto refuse = [](const std::string& name, const std::string& label, const char* what,
                         const std::string& other) {
    throw Error(ErrorKind::kConfig,
                cat(escaped(name), ": --output-format yolo: its label file ", escaped(label),
                    " is also ", what, " ", escaped(other)),
                kHint);
  };
  for (const std::string& name : image_names) {
    const std::string label = yolo_label_name(name);
    if (fs::path(label).filename().string().size() > kLongestName) {
      throw Error(ErrorKind::kConfig,
                  cat(escaped(name),
                      ": --output-format yolo: its label file's name is too long "
                      "(want at most ",
                      kLongestName, " bytes)"),
                  kHint);
    }
    const auto [other, is_new] = image_of.emplace(label, name);
    if (!is_new) refuse(name, label, "that of", other->second);
  }
  for (const auto& [label, name] : image_of) {
    for (fs::path folder = fs::path(label).parent_path(); !folder.empty();
         folder = folder.parent_path()) {
      const auto file = image_of.find(folder.string());
      if (file != image_of.end()) refuse(file->second, file->first, "the folder of", name);
    }
  }
}

std::string yolo_labels(const ImageInfo& image, std::span<const Detection> found,
                        const CategoryMap& categories) {
  std::string text;
  for (const Detection& one : found) {
    const auto& [left, top, width, height] = one.bbox;
    text += std::to_string(label_of(one, categories));
    for (const double number : {(left + width / 2) / image.width, (top + height / 2) / image.height,
                                width / image.width, height / image.height, one.score}) {
      text += ' ' + rounded(number, kShareDigits);
    }
    text += '\n';
  }
  return text;
}

std::string yolo_data(const CategoryMap& categories) {
  std::string text = "names:\n";
  for (int label = 0; label < categories.size(); ++label) {
    // A JSON string is also a YAML string.
    text += cat("  ", label, ": ", JsonWriter().value(categories.at(label).name).text(), "\n");
  }
  return text;
}

std::string detections_csv(const std::vector<ImageInfo>& images,
                           const std::vector<Detection>& detections,
                           const CategoryMap& categories) {
  std::string text = "file_name,width,height,xmin,ymin,xmax,ymax,label,score\n";
  for (const Detection& one : detections) {
    const ImageInfo& image = images[static_cast<std::size_t>(one.image_id - 1)];
    const auto& [left, top, width, height] = one.bbox;
    text += cat(csv_field(image.file_name), ',', image.width, ',', image.height);
    for (const double number : {left, top, left + width, top + height}) {
      text += ',' + rounded(number, kPixelDigits);
    }
    text += cat(',', csv_field(categories.at(label_of(one, categories)).name), ',',
                rounded(one.score, kShareDigits), '\n');
  }
  return text;
}

}  // namespace retina
