#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <sstream>

#include "preprocess/formats/parts.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/printable.h"

namespace retina {

namespace {

namespace fs = std::filesystem;

// "names" is a list, or a map from index to name.
Categories read_names(const std::string& path, const std::string& text) {
  require_utf8(text, path);
  try {
    const YAML::Node names = YAML::Load(text)["names"];
    if (!names || !(names.IsSequence() || names.IsMap()) || names.size() == 0) {
      throw Error(ErrorKind::kData, cat(path, ": key \"names\" is missing, or no list of classes"),
                  "give --annotations the data set's data.yaml");
    }
    Categories categories;
    std::int64_t next = 0;
    for (const auto& entry : names) {
      if (names.IsMap()) {
        categories.push_back(
            {.id = entry.first.as<std::int64_t>(), .name = entry.second.as<std::string>()});
      } else {
        categories.push_back({.id = next++, .name = entry.as<std::string>()});
      }
    }
    return categories;
  } catch (const YAML::Exception& error) {
    fail_line(path, static_cast<std::size_t>(std::max(error.mark.line, 0)) + 1, escaped(error.msg));
  }
}

// Ultralytics' rule: of the pictures' path, the last folder that is called "images" is "labels".
std::string labels_folder(const std::string& images) {
  const fs::path path = fs::absolute(images).lexically_normal();
  std::vector<fs::path> parts(path.begin(), path.end());
  const auto found = std::find(parts.rbegin(), parts.rend(), fs::path("images"));
  if (found == parts.rend()) {
    throw Error(ErrorKind::kNoInput,
                cat(images, ": has no folder \"images\" in its path (", path.string(),
                    "), beside which the folder \"labels\" is"),
                "give --images a folder .../images/SPLIT with the labels in .../labels/SPLIT");
  }
  *found = "labels";
  fs::path labels;
  for (const fs::path& part : parts) labels /= part;
  const std::string folder = labels.string();
  if (!is_folder(folder)) {
    throw Error(ErrorKind::kNoInput, cat(folder, ": is not a folder"),
                "the labels of .../images/SPLIT belong into .../labels/SPLIT");
  }
  return folder;
}

struct Label {
  std::int64_t category_id = 0;
  double left = 0, top = 0, right = 0, bottom = 0;  // as shares of the picture's sides
};

// "CLASS CX CY WIDTH HEIGHT", or "CLASS X1 Y1 X2 Y2 X3 Y3 ..." for an outline.
Label parse_label(const std::string& text, const Categories& categories, const std::string& path,
                  std::size_t line) {
  std::istringstream words(text);
  std::vector<double> numbers;
  for (std::string word; words >> word;) {
    numbers.push_back(parse_number(word, numbers.empty() ? "class" : "coordinate", path, line));
  }
  const bool is_outline = numbers.size() >= 7 && numbers.size() % 2 == 1;
  if (numbers.size() != 5 && !is_outline) {
    fail_line(path, line,
              cat("has ", numbers.size(), " numbers, want CLASS CX CY WIDTH HEIGHT, or CLASS and ",
                  "the points of an outline"));
  }
  for (std::size_t i = 1; i < numbers.size(); ++i) {
    constexpr double kRounding = 0.01;
    if (numbers[i] >= -kRounding && numbers[i] <= 1 + kRounding) continue;
    fail_line(path, line,
              cat("coordinate: got ", shortest(numbers[i]),
                  ", want 0 to 1, a share of the picture's side"));
  }
  // Compared as f64: the number may be larger than any integer.
  const auto known = std::find_if(categories.begin(), categories.end(), [&](const Category& one) {
    return static_cast<double>(one.id) == numbers[0];
  });
  if (known == categories.end()) {
    fail_line(path, line,
              cat("class: got ", shortest(numbers[0]), ", which data.yaml does not name"));
  }
  Label label{.category_id = known->id};
  if (!is_outline) {
    if (numbers[3] < 0 || numbers[4] < 0) {
      fail_line(path, line,
                cat(numbers[3] < 0 ? "width" : "height", ": got ",
                    shortest(std::min(numbers[3], numbers[4])), ", want 0 to 1"));
    }
    label.left = numbers[1] - numbers[3] / 2;
    label.top = numbers[2] - numbers[4] / 2;
    label.right = numbers[1] + numbers[3] / 2;
    label.bottom = numbers[2] + numbers[4] / 2;
    return label;
  }
  label.left = label.top = std::numeric_limits<double>::infinity();
  label.right = label.bottom = -std::numeric_limits<double>::infinity();
  for (std::size_t i = 1; i < numbers.size(); i += 2) {
    label.left = std::min(label.left, numbers[i]);
    label.right = std::max(label.right, numbers[i]);
    label.top = std::min(label.top, numbers[i + 1]);
    label.bottom = std::max(label.bottom, numbers[i + 1]);
  }
  return label;
}

}  // namespace

Instances read_yolo(const AnnotationSource& source, AnnotationFiles& files) {
  Instances out{.categories = read_names(
                    source.path, files.read(source.path, "data.yaml", EncodingIn::kComment))};
  const std::string labels = labels_folder(source.images);
  for (const std::string& name : files_below(source.images)) {
    if (!is_picture_name(name)) continue;
    out.images.push_back(
        {.id = static_cast<std::int64_t>(out.images.size()) + 1, .file_name = name});
  }
  if (out.images.empty()) {
    throw Error(ErrorKind::kData, cat(source.images, ": has no pictures"), "check --images");
  }
  read_picture_sizes(source, out);
  for (const ImageInfo& image : out.images) {
    const std::string name = fs::path(image.file_name).replace_extension(".txt").string();
    const std::string path = cat(labels, "/", name);
    if (!path_exists(path)) continue;  // a picture without objects
    const std::vector<std::string> lines = files.read_lines(path, name);
    for (std::size_t line = 1; line <= lines.size(); ++line) {
      if (lines[line - 1].find_first_not_of(" \t") == std::string::npos) continue;
      const Label label = parse_label(lines[line - 1], out.categories, path, line);
      const double width = (label.right - label.left) * image.width,
                   height = (label.bottom - label.top) * image.height;
      out.annotations.push_back(
          {.id = static_cast<std::int64_t>(out.annotations.size()) + 1,
           .image_id = image.id,
           .category_id = label.category_id,
           .bbox = {label.left * image.width, label.top * image.height, width, height},
           .area = width * height});
    }
  }
  return out;
}

}  // namespace retina
