#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "preprocess/formats/csv_layout.h"
#include "preprocess/formats/parts.h"
#include "shared/base/error.h"
#include "shared/base/image_folder.h"
#include "shared/base/log.h"
#include "shared/base/printable.h"

namespace retina {
namespace {

using Box = std::array<double, 4>;  // x, y, width, height

constexpr double kMostShare = 1.1;  // boxes drawn by hand reach beyond their image

// The files that lines name. A name without an image's ending is that of the image that has one,
// and of an address with a host or bucket the end counts.
class CsvImageNames {
 public:
  explicit CsvImageNames(std::string folder) : folder_(std::move(folder)), found_(folder_) {}

  // `below` is a column of folders, or empty. A file of that name may lie in several.
  std::string name_of(const std::string& given, const std::string& below, const std::string& file,
                      std::size_t line) {
    const auto [known, is_new] = names_.try_emplace({given, below});
    if (!is_new) return known->second;
    const std::string inside = cat(below, '/', given);
    known->second = !below.empty() && has(inside) ? inside : look_up(given, file, line);
    if (known->second == inside || below.empty()) return known->second;
    const auto [first, is_first] = folder_of_.emplace(known->second, below);
    if (!is_first && first->second != below) {
      fail_line(file, line,
                cat(escaped(given), " of folder \"", escaped(below), "\" is that of \"",
                    escaped(first->second), "\", too, and neither is in ", folder_));
    }
    return known->second;
  }

 private:
  std::string look_up(const std::string& given, const std::string& file, std::size_t line) {
    if (const std::size_t host = given.find("://"); host != std::string::npos) {
      const std::string address = given.substr(host + 3);
      std::string below = address.substr(std::min(address.find('/'), address.size() - 1) + 1);
      const std::string last = below.substr(below.rfind('/') + 1);
      if (last.empty()) fail_line(file, line, cat(escaped(given), " names no file"));
      return has(below) ? below : last;
    }
    std::string name = given;
    if (given.front() == '/') {
      const std::string prefix = folder_.ends_with('/') ? folder_ : folder_ + "/";
      if (!given.starts_with(prefix)) {
        fail_line(file, line,
                  cat(escaped(given), " is not below ", folder_, ", the folder of --images"));
      }
      name = given.substr(prefix.size());
    }
    if (is_image_name(name)) return name;
    if (!listed_) listed_.emplace(files_below(folder_));
    const std::string* whole = listed_->find(name);
    return whole != nullptr ? *whole : name;
  }

  bool has(const std::string& name) const {
    FoundFile found;
    return !found_.find(name, found);
  }

  std::string folder_;
  ImageFolder found_;
  std::optional<ImageNames> listed_{};
  std::map<std::pair<std::string, std::string>, std::string> names_{};  // by what lines say
  std::map<std::string, std::string> folder_of_{};  // of files that do not lie in it here
};

// A line's coordinates, in the layout's order.
std::vector<double> numbers_of(const CsvLayout& layout, const std::vector<std::string>& fields,
                               const std::string& path, std::size_t line) {
  std::vector<double> numbers;
  if (layout.box == CsvBox::kList) {
    const CsvColumn& column = layout.coordinates[0];
    std::string text = column.of(fields);
    std::replace_if(
        text.begin(), text.end(),
        [](char c) { return c == '[' || c == '(' || c == ',' || c == ']' || c == ')'; }, ' ');
    for (std::string_view rest = trimmed(text); !rest.empty();) {
      const std::size_t end = std::min(rest.find(' '), rest.size());
      numbers.push_back(parse_number(rest.substr(0, end), column.name.c_str(), path, line));
      rest = trimmed(rest.substr(end));
    }
    if (!numbers.empty() && numbers.size() != 4) {
      fail_line(path, line,
                cat(column.name, ": got ", counted(numbers.size(), "number"),
                    ", want [x, y, width, height]"));
    }
    return numbers;
  }
  std::vector<std::string> texts;
  for (const CsvColumn& column : layout.coordinates) texts.push_back(column.of(fields));
  const bool has_none =
      std::all_of(texts.begin(), texts.end(), [](const std::string& text) { return text.empty(); });
  if (has_none) return numbers;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    // AutoML may give two vertices of four.
    if (layout.box == CsvBox::kVertices && texts[i].empty() && texts[i ^ 1U].empty()) continue;
    numbers.push_back(parse_number(texts[i], layout.coordinates[i].name.c_str(), path, line));
  }
  return numbers;
}

Box box_of(const CsvLayout& layout, const std::vector<double>& numbers, const std::string& path,
           std::size_t line) {
  const auto& columns = layout.coordinates;
  if (layout.box == CsvBox::kVertices) {
    double low[2] = {numbers[0], numbers[1]}, high[2] = {numbers[0], numbers[1]};
    for (std::size_t i = 2; i < numbers.size(); ++i) {
      low[i % 2] = std::min(low[i % 2], numbers[i]);
      high[i % 2] = std::max(high[i % 2], numbers[i]);
    }
    return {low[0], low[1], high[0] - low[0], high[1] - low[1]};
  }
  if (layout.box == CsvBox::kCorners) {
    for (const std::size_t i : {0, 1}) {
      if (numbers[i + 2] >= numbers[i]) continue;
      fail_line(path, line,
                cat(columns[i + 2].name, " (", shortest(numbers[i + 2]), ") is less than ",
                    columns[i].name, " (", shortest(numbers[i]), ")"));
    }
    return {numbers[0], numbers[1], numbers[2] - numbers[0], numbers[3] - numbers[1]};
  }
  for (const std::size_t i : {2, 3}) {
    if (numbers[i] >= 0) continue;
    const std::string name = columns.size() == 4 ? columns[i].name : i == 2 ? "width" : "height";
    fail_line(path, line, cat(name, ": got ", shortest(numbers[i]), ", want 0 or more"));
  }
  if (layout.box == CsvBox::kCentreAndSize) {
    return {numbers[0] - numbers[2] / 2, numbers[1] - numbers[3] / 2, numbers[2], numbers[3]};
  }
  return {numbers[0], numbers[1], numbers[2], numbers[3]};
}

// A stated side of the image in pixels; 0, as some tools write it, is none.
int side_of(const CsvColumn& column, const std::vector<std::string>& fields,
            const std::string& path, std::size_t line) {
  const std::string text = column.of(fields);
  if (text.empty()) return 0;
  const double side = parse_number(text, column.name.c_str(), path, line);
  if (side < 0 || side > 1e6 || side != static_cast<int>(side)) {
    fail_line(path, line,
              cat(column.name, ": got ", escaped(text), ", want a whole number of pixels"));
  }
  return static_cast<int>(side);
}

struct ReadBox {
  Box box{};
  std::size_t line = 0, class_index = 0;
  bool is_crowd = false;
};
struct ReadImage {
  int width = 0, height = 0;
  std::vector<ReadBox> boxes{};
};

// The lines of a file, before classes have ids and shares are pixels.
class CsvReader {
 public:
  CsvReader(const AnnotationSource& source, AnnotationFiles& files)
      : path_(source.path), image_names_(source.images) {
    const std::vector<std::string> lines = files.read_lines(path_, "boxes");
    layout_ = csv_layout(path_, lines);
    for (std::size_t line = layout_.first_line; line <= lines.size(); ++line) {
      if (!trimmed(lines[line - 1]).empty()) take(lines[line - 1], line);
    }
    tell();
  }

  const CsvLayout& layout() const { return layout_; }
  const std::map<std::string, ReadImage>& images() const { return images_; }
  const std::vector<std::string>& class_names() const { return class_names_; }

  // Whether boxes are shares of the image's sides. Throws where some read as shares, some do not:
  // no box is less than a pixel large.
  bool has_shares() const {
    if (layout_.has_shares) {
      if (pixel_lines_.count == 0) return true;
      fail_line(path_, pixel_lines_.first,
                "the box is in pixels, want shares of the image's sides, as this layout has them");
    }
    if (share_lines_.count == 0) return false;
    if (pixel_lines_.count == 0) return true;
    const bool has_more_shares = share_lines_.count > pixel_lines_.count;
    const auto& [count, first] = has_more_shares ? pixel_lines_ : share_lines_;
    fail_line(path_, first,
              cat("the box is ", has_more_shares ? "in pixels" : "in shares of the image's sides",
                  ", as ", counted(count, "line"), " of ", share_lines_.count + pixel_lines_.count,
                  " have it; want one way for all"));
  }

 private:
  struct Lines {
    std::size_t count = 0, first = 0;
    void add(std::size_t line) {
      if (count++ == 0) first = line;
    }
  };

  void take(const std::string& text, std::size_t line) {
    const std::vector<std::string> fields = split_csv(text, layout_.separator);
    const bool has_more = std::any_of(
        fields.begin() + static_cast<std::ptrdiff_t>(std::min(fields.size(), layout_.column_count)),
        fields.end(), [](const std::string& field) { return !trimmed(field).empty(); });
    // AutoML's lines may end before empty fields.
    const bool may_be_short = layout_.box == CsvBox::kVertices && fields.size() >= 2;
    if (has_more || (fields.size() < layout_.column_count && !may_be_short)) {
      fail_line(path_, line,
                cat("has ", counted(fields.size(), "field"), ", want ", layout_.column_count,
                    layout_.has_header ? " as the header has"
                                       : ": PATH,X1,Y1,X2,Y2,CLASS, or PATH,,,,, for an "
                                         "image without boxes"));
    }
    const std::string given = layout_.image.of(fields);
    if (given.empty()) fail_line(path_, line, cat("has no ", layout_.image.name));
    if (layout_.part.is_there()) ++parts_[layout_.part.of(fields)];
    if (const std::string angle = layout_.angle.of(fields);
        !angle.empty() && parse_number(angle, layout_.angle.name.c_str(), path_, line) != 0) {
      fail_line(path_, line,
                cat(layout_.angle.name, ": got ", escaped(angle),
                    ", but rotated boxes cannot be trained on"));
    }
    ReadImage& image = images_[image_names_.name_of(given, layout_.folder.of(fields), path_, line)];
    take_size(image, fields, line);
    const std::vector<double> numbers = numbers_of(layout_, fields, path_, line);
    const bool has_box =
        std::any_of(numbers.begin(), numbers.end(), [](double number) { return number != 0; });
    if (!has_box) return;  // none: empty fields, or 0,0,0,0
    if (numbers.size() < 4) {
      fail_line(path_, line, "has one vertex of a box, want two that face each other, or all four");
    }
    const Box box = box_of(layout_, numbers, path_, line);
    count_unit(box, line);
    image.boxes.push_back({.box = box,
                           .line = line,
                           .class_index = class_of(fields, line),
                           .is_crowd = layout_.crowd.of(fields) == "1"});
  }

  void take_size(ReadImage& image, const std::vector<std::string>& fields, std::size_t line) {
    const int width = side_of(layout_.width, fields, path_, line);
    const int height = side_of(layout_.height, fields, path_, line);
    if (width == 0 || height == 0) return;
    if (image.width != 0 && (image.width != width || image.height != height)) {
      fail_line(path_, line,
                cat("the image is ", width, "x", height, ", which an earlier line has ", "as ",
                    image.width, "x", image.height));
    }
    image.width = width;
    image.height = height;
  }

  void count_unit(const Box& box, std::size_t line) {
    const bool is_whole = std::all_of(box.begin(), box.end(),
                                      [](double number) { return number == std::floor(number); });
    const bool is_small = std::max(box[0] + box[2], box[1] + box[3]) <= kMostShare;
    // 0, 0, 1, 1 may be either.
    if (box[2] <= 0 || box[3] <= 0 || (is_small && is_whole)) return;
    (is_small ? share_lines_ : pixel_lines_).add(line);
  }

  std::size_t class_of(const std::vector<std::string>& fields, std::size_t line) {
    const std::string name = layout_.label.is_there() ? layout_.label.of(fields) : "object";
    if (name.empty()) fail_line(path_, line, cat("has a box without a ", layout_.label.name));
    const auto [known, is_new] = class_index_.emplace(name, class_names_.size());
    if (is_new) class_names_.push_back(name);
    return known->second;
  }

  void tell() const {
    if (layout_.has_header) {
      const bool reads_all = layout_.ignored.empty();
      log_info(path_, ": line ", layout_.first_line - 1, " is the header",
               reads_all ? "" : ", columns that are not read: ", first_names(layout_.ignored));
    }
    if (parts_.size() > 1) {
      std::vector<std::string> told;
      for (const auto& [name, count] : parts_) told.push_back(cat(name, " ", count));
      log_warning(path_, ": lines of all parts are packed as one set (", layout_.part.name, ": ",
                  first_names(told), "); a file for each is the way to keep them apart");
    }
  }

  const std::string& path_;
  CsvImageNames image_names_;
  CsvLayout layout_{};
  std::map<std::string, ReadImage> images_{};  // by file name
  std::map<std::string, std::size_t> class_index_{};
  std::vector<std::string> class_names_{};  // as they come
  Lines share_lines_{}, pixel_lines_{};
  std::map<std::string, std::int64_t> parts_{};
};

// Ids as `classes` has them, else 1, 2, ... by name.
struct CsvClasses {
  Categories categories{};
  std::vector<std::int64_t> ids{};  // of class names as the file's lines have them
};

CsvClasses classes_of(const AnnotationSource& source, const CsvReader& reader,
                      AnnotationFiles& files) {
  const std::vector<std::string>& names = reader.class_names();
  CsvClasses out;
  if (source.classes.empty()) {
    std::vector<std::string> sorted = names;
    std::sort(sorted.begin(), sorted.end());
    out.categories = numbered_categories(sorted);
    for (const std::string& name : names) {
      out.ids.push_back(std::lower_bound(sorted.begin(), sorted.end(), name) - sorted.begin() + 1);
    }
    if (!reader.layout().label.is_there()) {
      log_warning(source.path,
                  ": no column names a class: all boxes are of one, \"object\" "
                  "(--classes FILE with one name calls it otherwise)");
    }
    return out;
  }
  const ClassIds classes(source.classes, files);
  out.categories = classes.categories();
  if (!reader.layout().label.is_there()) {
    if (out.categories.size() != 1) {
      throw Error(ErrorKind::kData,
                  cat(source.path, ": no column names a class, and ", source.classes, " has ",
                      out.categories.size(), " (want one)"));
    }
    out.ids.assign(names.size(), out.categories[0].id);
    return out;
  }
  std::vector<std::size_t> line_of(names.size());
  for (const auto& [name, image] : reader.images()) {
    for (const ReadBox& one : image.boxes) {
      std::size_t& line = line_of[one.class_index];
      if (line == 0 || one.line < line) line = one.line;
    }
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    out.ids.push_back(classes.id_of(names[i], source.path, line_of[i]));
  }
  return out;
}

}  // namespace

Instances read_csv(const AnnotationSource& source, AnnotationFiles& files) {
  const CsvReader reader(source, files);
  const bool has_shares = reader.has_shares();
  const CsvClasses classes = classes_of(source, reader, files);
  Instances out{.categories = classes.categories};
  for (const auto& [name, image] : reader.images()) {
    const auto image_id = static_cast<std::int64_t>(out.images.size()) + 1;
    out.images.push_back(
        {.id = image_id, .file_name = name, .width = image.width, .height = image.height});
    for (const ReadBox& one : image.boxes) {
      out.annotations.push_back({.id = static_cast<std::int64_t>(out.annotations.size()) + 1,
                                 .image_id = image_id,
                                 .category_id = classes.ids[one.class_index],
                                 .bbox = one.box,
                                 .area = one.box[2] * one.box[3],
                                 .iscrowd = one.is_crowd});
    }
  }
  read_image_sizes(source, out);
  if (has_shares) {
    log_info(source.path, ": boxes are shares of their images' sides");
    scale_shares(out);
  }
  return out;
}

}  // namespace retina
