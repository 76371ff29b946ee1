// Boxes of a CSV file, a line a box.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "preprocess/formats/class_names.h"
#include "preprocess/formats/csv_layout.h"
#include "preprocess/formats/image_names.h"
#include "shared/base/cat.h"
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
  std::string name_of(const std::string& given, const std::string& below, const FileLine& at) {
    const auto [known, is_new] = names_.try_emplace({given, below});
    if (!is_new) return known->second;
    const std::string inside = cat(below, '/', given);
    known->second = !below.empty() && has(inside) ? inside : look_up(given, at);
    if (known->second == inside || below.empty()) return known->second;
    const auto [first, is_first] = folder_of_.emplace(known->second, below);
    if (!is_first && first->second != below) {
      fail_line(at, cat(escaped(given), " is listed under both \"", escaped(first->second),
                        "\" and \"", escaped(below), "\", and neither exists in ", folder_));
    }
    return known->second;
  }

 private:
  std::string look_up(const std::string& given, const FileLine& at) {
    if (const std::size_t host = given.find("://"); host != std::string::npos) {
      const std::string address = given.substr(host + 3);
      std::string below = address.substr(std::min(address.find('/'), address.size() - 1) + 1);
      const std::string last = below.substr(below.rfind('/') + 1);
      if (last.empty()) fail_line(at, cat(escaped(given), " names no file"));
      return has(below) ? below : last;
    }
    std::string name = given;
    if (given.front() == '/') {
      const std::string prefix = folder_.ends_with('/') ? folder_ : folder_ + "/";
      if (!given.starts_with(prefix)) {
        fail_line(at, cat(escaped(given), " is not below ", folder_, ", the folder of --images"));
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

// A line of the file and its fields by the layout.
struct CsvLine {
  const CsvLayout& layout;
  std::vector<std::string> fields{};
  FileLine at;

  std::string of(const CsvColumn& column) const { return column.of(fields); }
  double number(const CsvColumn& column, std::string_view text) const {
    return parse_number(text, column.name.c_str(), at);
  }
};

// "[x, y, width, height]"; nothing where it is empty.
std::vector<double> listed_numbers(const CsvLine& line) {
  const CsvColumn& column = line.layout.coordinates[0];
  std::string text = line.of(column);
  const auto is_sign = [](char c) {
    return std::string_view("[](),").find(c) != std::string::npos;
  };
  std::replace_if(text.begin(), text.end(), is_sign, ' ');
  std::vector<double> numbers;
  for (std::string_view rest = trimmed(text); !rest.empty();) {
    const std::size_t end = std::min(rest.find(' '), rest.size());
    numbers.push_back(line.number(column, rest.substr(0, end)));
    rest = trimmed(rest.substr(end));
  }
  if (!numbers.empty() && numbers.size() != 4) {
    fail_line(line.at, cat(column.name, ": got ", counted(numbers.size(), "number"),
                           ", want [x, y, width, height]"));
  }
  return numbers;
}

// A line's coordinates, in the layout's order; nothing where it has none.
std::vector<double> numbers_of(const CsvLine& line) {
  const CsvLayout& layout = line.layout;
  if (layout.box == CsvBox::kList) return listed_numbers(line);
  std::vector<std::string> texts;
  for (const CsvColumn& column : layout.coordinates) texts.push_back(line.of(column));
  std::vector<double> numbers;
  if (std::all_of(texts.begin(), texts.end(), [](const auto& text) { return text.empty(); })) {
    return numbers;
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    // AutoML may give two vertices of four.
    if (layout.box == CsvBox::kVertices && texts[i].empty() && texts[i ^ 1U].empty()) continue;
    numbers.push_back(line.number(layout.coordinates[i], texts[i]));
  }
  return numbers;
}

Box box_of(const CsvLine& line, const std::vector<double>& numbers) {
  const CsvBox given = line.layout.box;
  const auto& columns = line.layout.coordinates;
  if (given == CsvBox::kVertices) {
    double low[2] = {numbers[0], numbers[1]}, high[2] = {numbers[0], numbers[1]};
    for (std::size_t i = 2; i < numbers.size(); ++i) {
      low[i % 2] = std::min(low[i % 2], numbers[i]);
      high[i % 2] = std::max(high[i % 2], numbers[i]);
    }
    return {low[0], low[1], high[0] - low[0], high[1] - low[1]};
  }
  if (given == CsvBox::kCorners) {
    for (const std::size_t i : {0, 1}) {
      if (numbers[i + 2] >= numbers[i]) continue;
      fail_line(line.at, cat(columns[i + 2].name, " (", line.of(columns[i + 2]), ") is less than ",
                             columns[i].name, " (", line.of(columns[i]), ")"));
    }
    return {numbers[0], numbers[1], numbers[2] - numbers[0], numbers[3] - numbers[1]};
  }
  for (const std::size_t i : {2, 3}) {
    if (numbers[i] >= 0) continue;
    const bool has_column = columns.size() == 4;  // or all are in one
    fail_line(line.at, cat(has_column ? columns[i].name
                           : i == 2   ? "width"
                                      : "height",
                           ": got ", has_column ? line.of(columns[i]) : shortest(numbers[i]),
                           ", want 0 or more"));
  }
  if (given == CsvBox::kCentreAndSize) {
    return {numbers[0] - numbers[2] / 2, numbers[1] - numbers[3] / 2, numbers[2], numbers[3]};
  }
  return {numbers[0], numbers[1], numbers[2], numbers[3]};
}

// A stated side of the image in pixels; 0, as some tools write it, is none.
int side_of(const CsvColumn& column, const CsvLine& line) {
  const std::string text = line.of(column);
  if (text.empty()) return 0;
  const double side = line.number(column, text);
  if (side < 0 || side > 1e6 || side != static_cast<int>(side)) {
    fail_line(line.at,
              cat(column.name, ": got ", escaped(text), ", want a whole number of pixels"));
  }
  return static_cast<int>(side);
}

struct ReadBox {
  Box box{};
  std::size_t class_index = 0;
  bool is_crowd = false;
};
struct ReadImage {
  int width = 0, height = 0;
  std::vector<ReadBox> boxes{};
};
struct ReadClass {
  std::string name{};
  std::size_t line = 0;  // of its first box
};

// The lines of a file, before classes have ids and shares are pixels.
class CsvReader {
 public:
  CsvReader(const AnnotationSource& source, AnnotationFiles& files)
      : path_(source.path), image_names_(source.images) {
    const std::vector<TextLine> lines = files.read_lines(path_, "boxes");
    layout_ = csv_layout(path_, lines);
    for (std::size_t i = layout_.has_header ? 1 : 0; i < lines.size(); ++i) {
      const FileLine at{path_, lines[i].number};
      take({.layout = layout_, .fields = fields_of_row(lines, i), .at = at});
    }
    tell(lines.front());
  }

  bool names_classes() const { return layout_.label.is_there(); }
  const std::map<std::string, ReadImage>& images() const { return images_; }
  // As they come.
  const std::vector<ReadClass>& classes() const { return classes_; }

  // Whether boxes are shares of the image's sides. Throws where some read as shares, some do not:
  // no box is less than a pixel large.
  bool has_shares() const {
    if (layout_.has_shares) {
      if (pixel_lines_.count == 0) return true;
      fail_line({path_, pixel_lines_.first},
                "the box is in pixels, but this layout uses normalised coordinates (0 to 1)");
    }
    if (share_lines_.count == 0) return false;
    if (pixel_lines_.count == 0) return true;
    constexpr const char* kPixels = "in pixels";
    constexpr const char* kShares = "normalised (0 to 1)";
    const bool has_more_shares = share_lines_.count > pixel_lines_.count;
    const auto& [count, first] = has_more_shares ? pixel_lines_ : share_lines_;
    fail_line({path_, first},
              cat("the box is ", has_more_shares ? kPixels : kShares, ", as on ", count, " of ",
                  share_lines_.count + pixel_lines_.count, " lines; the others are ",
                  has_more_shares ? kShares : kPixels, "; use one unit throughout"));
  }

 private:
  struct Lines {
    std::size_t count = 0, first = 0;
    void add(std::size_t line) {
      if (count++ == 0) first = line;
    }
  };

  // The fields of the row that begins on line `i`, which becomes its last: quoted ones may go on
  // over lines.
  std::vector<std::string> fields_of_row(const std::vector<TextLine>& lines, std::size_t& i) const {
    constexpr std::size_t kMostLines = 8;  // more: a quote that nobody closed
    std::string text = lines[i].text;
    bool is_open = false;
    const std::vector<std::string> first = split_csv(text, layout_.separator, &is_open);
    for (std::size_t last = i; is_open && ++last < std::min(lines.size(), i + kMostLines);) {
      text += cat(' ', lines[last].text);
      std::vector<std::string> fields = split_csv(text, layout_.separator, &is_open);
      if (is_open) continue;
      i = last;
      return fields;
    }
    return first;
  }

  void take(const CsvLine& line) {
    check_length(line);
    const std::string given = line.of(layout_.image);
    if (given.empty()) fail_line(line.at, cat("has no ", layout_.image.name));
    if (layout_.part.is_there()) ++parts_[line.of(layout_.part)];
    if (const std::string angle = line.of(layout_.angle);
        !angle.empty() && line.number(layout_.angle, angle) != 0) {
      fail_line(line.at, cat(layout_.angle.name, ": got ", escaped(angle),
                             ", but rotated boxes cannot be trained on"));
    }
    ReadImage& image = images_[image_names_.name_of(given, line.of(layout_.folder), line.at)];
    take_size(image, line);

    // Empty fields, or 0,0,0,0: an image without boxes.
    const std::vector<double> numbers = numbers_of(line);
    if (std::all_of(numbers.begin(), numbers.end(), [](double number) { return number == 0; })) {
      return;
    }
    if (numbers.size() < 4) {
      fail_line(line.at, "has one vertex of a box, want two opposite vertices, or all four");
    }
    const Box box = box_of(line, numbers);
    count_unit(box, line.at.number);
    image.boxes.push_back(
        {.box = box, .class_index = class_of(line), .is_crowd = line.of(layout_.crowd) == "1"});
  }

  void check_length(const CsvLine& line) const {
    const std::vector<std::string>& fields = line.fields;
    const std::size_t wanted = layout_.column_count;
    bool has_more = false;
    for (std::size_t i = wanted; i < fields.size(); ++i) has_more |= !trimmed(fields[i]).empty();
    // AutoML's lines may end before empty fields.
    const bool may_be_short = layout_.box == CsvBox::kVertices && fields.size() >= 2;
    if (!has_more && (fields.size() >= wanted || may_be_short)) return;
    fail_line(line.at, cat("has ", counted(fields.size(), "field"), ", want ", wanted,
                           layout_.has_header ? " as the header has"
                                              : ": PATH,X1,Y1,X2,Y2,CLASS, or PATH,,,,, for an "
                                                "image without boxes"));
  }

  void take_size(ReadImage& image, const CsvLine& line) const {
    const int width = side_of(layout_.width, line), height = side_of(layout_.height, line);
    if (width == 0 || height == 0) return;
    if (image.width != 0 && (image.width != width || image.height != height)) {
      fail_line(line.at, cat("the image is ", width, "x", height, ", but ", image.width, "x",
                             image.height, " on an earlier line"));
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

  std::size_t class_of(const CsvLine& line) {
    const std::string name = names_classes() ? line.of(layout_.label) : "object";
    if (name.empty()) fail_line(line.at, cat("has a box without a ", layout_.label.name));
    const auto [known, is_new] = class_index_.emplace(name, classes_.size());
    if (is_new) classes_.push_back({.name = name, .line = line.at.number});
    return known->second;
  }

  void tell(const TextLine& header) const {
    if (layout_.has_header) {
      const bool reads_all = layout_.ignored.empty();
      log_info(path_, ": line ", header.number, " is the header",
               reads_all ? "" : ", columns that are not read: ", first_names(layout_.ignored));
    }
    if (parts_.size() > 1) {
      log_warning(path_, ": lines of all parts are packed as one set (", layout_.part.name, ": ",
                  first_counts(parts_), "); a file for each is the way to keep them apart");
    }
  }

  const std::string& path_;
  CsvImageNames image_names_;
  CsvLayout layout_{};
  std::map<std::string, ReadImage> images_{};  // by file name
  std::vector<ReadClass> classes_{};
  std::map<std::string, std::size_t> class_index_{};
  Lines share_lines_{}, pixel_lines_{};
  std::map<std::string, std::int64_t> parts_{};
};

struct CsvClasses {
  Categories categories{};
  std::vector<std::int64_t> ids{};  // of each of the reader's classes
};

CsvClasses classes_of(const AnnotationSource& source, const CsvReader& reader,
                      AnnotationFiles& files) {
  std::set<std::string> names;
  for (const ReadClass& one : reader.classes()) names.insert(one.name);
  const ClassIds ids(source, names, files);
  CsvClasses out{.categories = ids.categories()};
  if (reader.names_classes() || source.classes.empty()) {
    for (const auto& [name, line] : reader.classes()) {
      out.ids.push_back(ids.id_of(name, {source.path, line}));
    }
  } else if (out.categories.size() == 1) {
    out.ids.assign(reader.classes().size(), out.categories[0].id);
  } else {
    throw Error(ErrorKind::kData,
                cat(source.path, ": no column names a class, and ", source.classes, " has ",
                    out.categories.size(), " (want one)"));
  }
  if (!reader.names_classes() && source.classes.empty()) {
    log_warning(source.path,
                ": no column names a class: all boxes get the class \"object\" "
                "(rename it with --classes FILE, a file with one name)");
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
    const std::int64_t image_id = std::ssize(out.images) + 1;
    out.images.push_back(
        {.id = image_id, .file_name = name, .width = image.width, .height = image.height});
    for (const ReadBox& one : image.boxes) {
      out.annotations.push_back({.id = std::ssize(out.annotations) + 1,
                                 .image_id = image_id,
                                 .category_id = classes.ids[one.class_index],
                                 .bbox = one.box,
                                 .area = one.box[2] * one.box[3],
                                 .iscrowd = one.is_crowd});
    }
  }
  read_image_sizes(source, out);
  if (has_shares) {
    log_info(source.path, ": box coordinates are normalised (0 to 1)");
    scale_shares(out);
  }
  return out;
}

}  // namespace retina
