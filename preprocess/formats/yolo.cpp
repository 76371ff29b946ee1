// YOLO's labels: a text file an image, with the classes in Ultralytics' data.yaml or in a list.
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "preprocess/formats/class_names.h"
#include "preprocess/formats/image_names.h"
#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/log.h"
#include "shared/base/printable.h"

namespace retina {

namespace {

namespace fs = std::filesystem;

struct YoloSet {
  std::string source{};  // the file that lists the classes, for messages
  Categories categories{};
  // Of pose labels, how many numbers follow the box: n * d of kpt_shape [n, d].
  std::optional<std::size_t> point_numbers{};
};

std::size_t line_of(const YAML::Mark& mark) {
  return static_cast<std::size_t>(std::max(mark.line, 0)) + 1;
}

// data.yaml.
class DataYaml {
 public:
  DataYaml(const std::string& path, const std::string& text)
      : path_(path), root_(YAML::Load(text)) {}

  YoloSet read() const {
    YoloSet set{.source = path_, .categories = names()};
    check_count(set.categories);
    set.point_numbers = point_numbers();
    return set;
  }

 private:
  [[noreturn]] void fail(const YAML::Node& node, const std::string& problem) const {
    fail_line({path_, line_of(node.Mark())}, problem);
  }

  // The value of a key. Of a key that is there twice, tools differ in which value they take.
  std::optional<YAML::Node> value_of(const std::string& key) const {
    std::optional<YAML::Node> value;
    if (!root_.IsMap()) return value;
    for (const auto& entry : root_) {
      if (!entry.first.IsScalar() || entry.first.Scalar() != key) continue;
      if (value) {
        fail(entry.first,
             cat("key \"", key, "\" already appears on line ", line_of(value->Mark())));
      }
      value = entry.second;
    }
    return value;
  }

  std::int64_t whole_number(const YAML::Node& node, const char* field) const {
    return parse_whole(node.IsScalar() ? node.Scalar() : "", field, {path_, line_of(node.Mark())},
                       0);
  }

  // A list, or a map from index to name.
  Categories names() const {
    const std::optional<YAML::Node> names = value_of("names");
    if (!names || !(names->IsSequence() || names->IsMap()) || names->size() == 0) {
      throw Error(ErrorKind::kData, cat(path_, ": key \"names\" is missing, or no list of classes"),
                  "give --annotations the data set's data.yaml, or its classes.txt (.txt or "
                  ".names: a class name a line)");
    }
    Categories categories;
    std::set<std::int64_t> indices;
    for (const auto& entry : *names) {
      const YAML::Node& name = names->IsMap() ? entry.second : entry;
      Category one{.id = std::ssize(categories)};
      if (names->IsMap()) one.id = whole_number(entry.first, "index of names");
      if (!indices.insert(one.id).second) {
        fail(entry.first, cat("names: index ", one.id, " appears twice"));
      }
      if (!name.IsScalar() || trimmed(name.Scalar()).empty()) {
        fail(name, cat("names: class ", one.id, " has no name"));
      }
      one.name = name.Scalar();
      categories.push_back(std::move(one));
    }
    return categories;
  }

  // "nc" counts the classes, or the places up to the last index where some have none.
  void check_count(const Categories& categories) const {
    const std::optional<YAML::Node> node = value_of("nc");
    if (!node) return;
    const std::int64_t count = whole_number(*node, "nc");
    const auto last =
        std::max_element(categories.begin(), categories.end(),
                         [](const Category& a, const Category& b) { return a.id < b.id; });
    if (count == std::ssize(categories) || count == last->id + 1) return;
    fail(*node, cat("nc: got ", count, ", but \"names\" has ", categories.size(),
                    categories.size() == 1 ? " class" : " classes"));
  }

  std::optional<std::size_t> point_numbers() const {
    const std::optional<YAML::Node> shape = value_of("kpt_shape");
    if (!shape) return std::nullopt;
    if (shape->IsSequence() && shape->size() == 2) {
      const std::int64_t count = whole_number((*shape)[0], "kpt_shape"),
                         size = whole_number((*shape)[1], "kpt_shape");
      if (count > 0 && (size == 2 || size == 3)) return static_cast<std::size_t>(count * size);
    }
    fail(*shape,
         "kpt_shape: want [N, 2] or [N, 3], the number of key points and of numbers of each");
  }

  std::string path_;
  YAML::Node root_;
};

// Label Studio's classes.txt, darknet's obj.names: line 1 is class 0.
YoloSet read_name_list(const std::string& path, AnnotationFiles& files) {
  YoloSet set{.source = path};
  for (std::string& name : class_lines(path, files.read_lines(path, "data.yaml"))) {
    set.categories.push_back({.id = std::ssize(set.categories), .name = std::move(name)});
  }
  return set;
}

YoloSet read_set(const std::string& path, AnnotationFiles& files) {
  const std::string suffix = lower_suffix(path);
  if (suffix == ".txt" || suffix == ".names") return read_name_list(path, files);
  if (is_folder(path)) {
    throw Error(ErrorKind::kNoInput, cat(path, ": is a folder, want data.yaml"));
  }
  const std::string text = files.read(path, "data.yaml", EncodingIn::kComment);
  require_utf8(text, path);
  try {
    return DataYaml(path, text).read();
  } catch (const YAML::Exception& error) {
    fail_line({path, line_of(error.mark)}, cat("is not valid YAML: ", escaped(error.msg)));
  }
}

// Ultralytics' rule: of the path, the last folder that is called "images" is "labels". Nothing
// where there is none.
std::optional<std::string> beside_images(const fs::path& path) {
  std::vector<fs::path> parts(path.begin(), path.end());
  const auto found = std::find(parts.rbegin(), parts.rend(), fs::path("images"));
  if (found == parts.rend()) return std::nullopt;
  *found = "labels";
  fs::path labels;
  for (const fs::path& part : parts) labels /= part;
  return labels.string();
}

bool is_label_name(const std::string& name) {
  return name.ends_with(".txt") && fs::path(name).filename() != "classes.txt";
}

struct LabelFiles {
  std::string folder{};                      // that their names are relative to
  std::map<std::string, std::string> of{};   // image -> its label file
  std::vector<std::string> without_image{};  // label files of no image
};

// The labels of the images, where `below` are all files of --images: in .../labels/SPLIT of
// .../images/SPLIT; where there is no such folder, below --images by the same rule, or beside the
// images.
LabelFiles find_labels(const std::string& images, const std::vector<std::string>& below) {
  LabelFiles labels{.folder = images};
  const auto outside = beside_images(fs::absolute(images).lexically_normal());
  const bool is_outside = outside && is_folder(*outside);
  if (is_outside) labels.folder = *outside;
  std::set<std::string> left;
  for (const std::string& name : is_outside ? files_below(labels.folder) : below) {
    if (is_label_name(name)) left.insert(name);
  }
  if (left.empty()) {
    throw Error(
        is_outside ? ErrorKind::kData : ErrorKind::kNoInput,
        cat(labels.folder, ": has no label files",
            outside && !is_outside ? cat(", and ", *outside, " is not a folder") : ""),
        "the labels of .../images/SPLIT belong into .../labels/SPLIT, or beside the images");
  }
  const std::set<std::string> all = left;
  for (const std::string& name : below) {
    if (!is_image_name(name)) continue;
    const std::string label = fs::path(name).replace_extension(".txt").string();
    for (const std::string& candidate :
         {is_outside ? label : beside_images(label).value_or(label), label}) {
      if (!all.contains(candidate)) continue;
      labels.of.emplace(name, candidate);
      left.erase(candidate);
    }
  }
  labels.without_image.assign(left.begin(), left.end());
  return labels;
}

// Throws if no label file has an image; warns of those that have none.
void check_labels(const LabelFiles& labels, const std::string& images,
                  const std::vector<std::string>& image_names) {
  const std::size_t count = labels.without_image.size();
  if (labels.of.empty()) {
    throw Error(ErrorKind::kData,
                cat(labels.folder, ": none of its ", count, " label files (",
                    first_names(labels.without_image), ") has the name of an image of ", images,
                    " (", first_names(image_names), ")"),
                "the labels of a.jpg are in a.txt");
  }
  if (count > 0) {
    log_warning(labels.folder, ": ", counted(count, "label file has", "label files have"),
                " no image in ", images, " (", first_names(labels.without_image), ")");
  }
  const std::vector<std::string> unlabelled = names_without(image_names, labels.of);
  if (!unlabelled.empty()) {
    log_info(images, ": ", unlabelled.size(), " of ", image_names.size(),
             " images have no label file; they are packed without boxes (", first_names(unlabelled),
             ")");
  }
}

struct Label {
  std::int64_t category_id = 0;
  std::array<double, 4> box{};  // left, top, width, height as shares of the image's sides
  bool has_confidence = false;  // of a prediction
  friend auto operator<=>(const Label&, const Label&) = default;
};

void check_length(std::size_t count, const YoloSet& set, const FileLine& at) {
  if (set.point_numbers) {
    const std::size_t wanted = 5 + *set.point_numbers;
    if (count == wanted) return;
    fail_line(
        at, cat("has ", count, " numbers, want ", wanted,
                ", CLASS CX CY WIDTH HEIGHT and the key points of \"kpt_shape\" in ", set.source));
  }
  if (count == 5 || count == 6 || (count >= 7 && count % 2 == 1)) return;
  fail_line(at, cat("has ", count, " numbers, want CLASS CX CY WIDTH HEIGHT, or CLASS and the ",
                    "points of an outline"));
}

// The category of a label's first number. Compared as f64: it may be larger than any integer.
std::int64_t category_of(double number, const std::string& text, const YoloSet& set,
                         const FileLine& at) {
  for (const Category& one : set.categories) {
    if (static_cast<double>(one.id) == number) return one.id;
  }
  fail_line(at, cat("class: got ", text, ", which ", fs::path(set.source).filename().string(),
                    " does not name"));
}

// "CLASS CX CY WIDTH HEIGHT", with the confidence of a prediction behind it, or the key points of a
// pose where the set has such, or "CLASS X1 Y1 X2 Y2 X3 Y3 ..." for an outline.
Label parse_label(const std::string& text, const YoloSet& set, const FileLine& at) {
  const std::vector<std::string> words = words_of(text);
  std::vector<double> numbers;
  for (const std::string& word : words) {
    numbers.push_back(parse_number(word, numbers.empty() ? "class" : "coordinate", at));
  }
  check_length(numbers.size(), set, at);
  Label label{.has_confidence = numbers.size() == 6};
  if (set.point_numbers || label.has_confidence) numbers.resize(5);
  for (std::size_t i = 1; i < numbers.size(); ++i) {
    constexpr double kRounding = 0.01;
    if (numbers[i] >= -kRounding && numbers[i] <= 1 + kRounding) continue;
    fail_line(at, cat("coordinate: got ", words[i], ", want 0 to 1, a share of the image's side"));
  }
  label.category_id = category_of(numbers[0], words[0], set, at);

  std::vector<double> points(numbers.begin() + 1, numbers.end());
  if (numbers.size() == 5) {
    const double x = numbers[1], y = numbers[2], width = numbers[3], height = numbers[4];
    if (width < 0 || height < 0) {
      fail_line(at, cat(width < 0 ? "width" : "height", ": got ", words[width < 0 ? 3 : 4],
                        ", want 0 to 1"));
    }
    points = {x - width / 2, y - height / 2, x + width / 2, y + height / 2};
  }
  label.box = box_around(points);
  return label;
}

// The counts that are reported once all label files are read.
struct LabelNotes {
  std::size_t box_count = 0, confidence_count = 0, repeated_count = 0;
  std::string first_repeated{};

  void report(const std::string& folder) const {
    if (repeated_count > 0) {
      log_warning(folder, ": ", counted(repeated_count, "line repeats", "lines repeat"),
                  " a box of the same file and is ignored (", first_repeated,
                  repeated_count == 1 ? ")" : ", ...)");
    }
    if (confidence_count > 0) {
      log_warning(folder, ": ",
                  counted(confidence_count, "line has a sixth number", "lines have a sixth number"),
                  ", such as a prediction's confidence, which is ignored: the boxes probably come "
                  "from a model, so check them before training");
    }
    if (box_count + repeated_count == 0) log_warning(folder, ": no label file has a box");
  }
};

// Training and validation images packed as one set make validation worthless.
void warn_of_splits(const std::string& folder, const std::vector<std::string>& image_names) {
  std::map<std::string, std::int64_t> splits;
  for (const std::string& image : image_names) {
    for (const fs::path& part : fs::path(image).parent_path()) {
      if (is_split_name(part.string())) ++splits[part.string()];
    }
  }
  if (splits.size() < 2) return;
  log_warning(folder, ": images of several parts are packed as one set (", first_counts(splits),
              "); give --images the folder of one part");
}

}  // namespace

Instances read_yolo(const AnnotationSource& source, AnnotationFiles& files) {
  const YoloSet set = read_set(source.path, files);
  Instances out{.categories = set.categories};
  const std::vector<std::string> below = files_below(source.images);
  const std::vector<std::string> image_names = images_of(below);
  if (image_names.empty()) {
    throw Error(ErrorKind::kData, cat(source.images, ": has no images"), "check --images");
  }
  warn_of_splits(source.images, image_names);

  // Each image with the boxes of its label file, as shares of the sides until sizes are known.
  const LabelFiles labels = find_labels(source.images, below);
  check_labels(labels, source.images, image_names);
  LabelNotes notes;
  for (const std::string& image : image_names) {
    add_image(out, {.file_name = image});
    const auto file = labels.of.find(image);
    if (file == labels.of.end()) continue;  // without objects
    const std::string path = cat(labels.folder, "/", file->second);
    std::set<Label> seen;
    for (const auto& [text, number] : files.read_lines(path, file->second)) {
      const Label label = parse_label(text, set, {path, number});
      if (!seen.insert(label).second) {
        if (notes.repeated_count++ == 0) {
          notes.first_repeated = cat(escaped(file->second), ": line ", number);
        }
        continue;
      }
      ++notes.box_count;
      notes.confidence_count += label.has_confidence ? 1 : 0;
      add_box(out, label.box, label.category_id);
    }
  }
  notes.report(labels.folder);
  read_image_sizes(source, out);
  scale_shares(out);
  return out;
}

}  // namespace retina
