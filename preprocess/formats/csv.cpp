#include <map>

#include "preprocess/formats/parts.h"
#include "shared/base/error.h"
#include "shared/base/printable.h"

namespace retina {

namespace {

constexpr const char* kWanted =
    "want PATH,X1,Y1,X2,Y2,CLASS, or PATH,,,,, for an image without boxes";

// The file's name in the image folder. Absolute paths must lead into it.
std::string name_in(const std::string& folder, const std::string& path, const std::string& file,
                    std::size_t line) {
  if (path.empty()) fail_line(file, line, cat("has no path, ", kWanted));
  if (path.front() != '/') return path;
  const std::string prefix = folder.ends_with('/') ? folder : folder + "/";
  if (path.starts_with(prefix)) return path.substr(prefix.size());
  fail_line(file, line, cat(escaped(path), " is not below ", folder, ", the folder of --images"));
}

}  // namespace

Instances read_csv(const AnnotationSource& source, AnnotationFiles& files) {
  struct Box {
    std::array<double, 4> corners{};
    std::int64_t category_id = 0;
  };
  const ClassIds classes(source.classes, files);
  std::map<std::string, std::vector<Box>> boxes_of;  // by image
  const std::vector<std::string> lines = files.read_lines(source.path, "boxes");
  for (std::size_t line = 1; line <= lines.size(); ++line) {
    if (lines[line - 1].empty()) continue;
    const std::vector<std::string> fields = split_csv(lines[line - 1]);
    if (fields.size() != 6) {
      fail_line(source.path, line, cat("has ", fields.size(), " fields, ", kWanted));
    }
    auto& boxes = boxes_of[name_in(source.images, fields[0], source.path, line)];
    if (fields[1].empty() && fields[2].empty() && fields[3].empty() && fields[4].empty() &&
        fields[5].empty()) {
      continue;
    }
    constexpr const char* kNames[4] = {"x1", "y1", "x2", "y2"};
    Box box;
    for (std::size_t i = 0; i < 4; ++i) {
      box.corners[i] = parse_number(fields[i + 1], kNames[i], source.path, line);
    }
    for (const std::size_t i : {0, 1}) {
      if (box.corners[i + 2] >= box.corners[i]) continue;
      fail_line(source.path, line,
                cat(kNames[i + 2], " (", fields[i + 3], ") is less than ", kNames[i], " (",
                    fields[i + 1], ")"));
    }
    box.category_id = classes.id_of(fields[5], source.path, line);
    boxes.push_back(box);
  }

  Instances out{.categories = classes.categories()};
  for (const auto& [name, boxes] : boxes_of) {
    const auto image_id = static_cast<std::int64_t>(out.images.size()) + 1;
    out.images.push_back({.id = image_id, .file_name = name});
    for (const auto& [corners, category_id] : boxes) {
      const double width = corners[2] - corners[0], height = corners[3] - corners[1];
      out.annotations.push_back({.id = static_cast<std::int64_t>(out.annotations.size()) + 1,
                                 .image_id = image_id,
                                 .category_id = category_id,
                                 .bbox = {corners[0], corners[1], width, height},
                                 .area = width * height});
    }
  }
  read_picture_sizes(source, out);
  return out;
}

}  // namespace retina
