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
#include "shared/base/file_spelling.h"
#include "shared/base/image_folder.h"
#include "shared/base/log.h"
#include "shared/base/printable.h"

namespace retina {
namespace {

constexpr double kMostShare = 1.1;  // boxes drawn by hand reach beyond their image

// The files that lines name. A name without an image's ending is that of the image that has one,
// and of an address with a host or bucket the end counts.
class CsvImageNames {
 public:
  explicit CsvImageNames(std::string folder) : folder_(std::move(folder)), found_(folder_) {}

  // `below` is a column of folders, or empty. A file of that name may lie in several.
  std::string name_of(const std::string& given, const std::string& below, const FileLine& at) {
    const auto [known, is_new] = names_.try_emplace({given, below});
    std::string& name = known->second;
    if (!is_new) return name;
    if (const std::string inside = cat(below, '/', given); !below.empty() && has(inside)) {
      return name = inside;
    }
    name = look_up(given, at);
    if (below.empty()) return name;
    const std::string& first = folder_of_.emplace(name, below).first->second;
    if (first != below) {
      fail_line(at, cat(escaped(given), " is listed under both \"", escaped(first), "\" and \"",
                        escaped(below), "\", and neither exists in ", folder_));
    }
    return name;
  }

 private:
  std::string look_up(const std::string& given, const FileLine& at) {
    if (const std::size_t host = given.find("://"); host != std::string::npos) {
      const std::size_t end = given.find('/', host + 3);
      const std::string below = end == std::string::npos ? "" : given.substr(end + 1);
      const std::string last = last_part(below);
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

// Returns a line's coordinates in the layout's order; nothing where it has none.
std::vector<double> numbers_of(const CsvLine& line) {
  const CsvLayout& layout = line.layout;
  std::vector<std::string> texts;
  for (const CsvColumn& column : layout.coordinates) texts.push_back(line.of(column));
  std::vector<double> numbers;
  if (layout.box == CsvBox::kList) {
    const CsvColumn& list = layout.coordinates[0];
    const auto is_sign = [](char c) {
      return std::string_view("[](),").find(c) != std::string_view::npos;
    };
    std::replace_if(texts[0].begin(), texts[0].end(), is_sign, ' ');
    for (const std::string& word : words_of(texts[0])) numbers.push_back(line.number(list, word));
    if (numbers.empty() || numbers.size() == 4) return numbers;
    fail_line(line.at, cat(list.name, ": got ", counted(numbers.size(), "number"),
                           ", want [x, y, width, height]"));
  }
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
  if (given == CsvBox::kVertices) return box_around(numbers);
  const double x = numbers[0], y = numbers[1], width = numbers[2], height = numbers[3];
  if (given == CsvBox::kCorners) {
    for (const std::size_t i : {0, 1}) {
      const CsvColumn &low = line.layout.coordinates[i], &high = line.layout.coordinates[i + 2];
      if (numbers[i + 2] >= numbers[i]) continue;
      fail_line(line.at, cat(high.name, " (", line.of(high), ") is less than ", low.name, " (",
                             line.of(low), ")"));
    }
    return {x, y, numbers[2] - x, numbers[3] - y};
  }
  if (width < 0 || height < 0) {
    fail_line(line.at, cat("the box is ", shortest(width), " x ", shortest(height),
                           ", want sides of 0 or more"));
  }
  if (given == CsvBox::kCentreAndSize) return {x - width / 2, y - height / 2, width, height};
  return {x, y, width, height};
}

// Returns a stated side of the image in pixels; 0, as some tools write it, is none.
int side_of(const CsvColumn& column, const CsvLine& line) {
  const std::string text = line.of(column);
  return text.empty() ? 0 : static_cast<int>(parse_whole(text, column.name.c_str(), line.at, 0));
}

struct ReadBox {
  Box box{};
  const std::string* class_name = nullptr;
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
  // The line of each class's first box, by the class's name.
  const std::map<std::string, std::size_t>& class_lines() const { return class_lines_; }

  // Says whether boxes are shares of the image's sides. Throws where some read as shares, some do
  // not: no box is less than a pixel large.
  bool has_shares() const {
    const Lines &shares = share_lines_, &pixels = pixel_lines_;
    if (layout_.has_shares && pixels.count > 0) {
      fail_line({path_, pixels.first},
                "the box is in pixels, but this layout uses normalised coordinates (0 to 1)");
    }
    if (shares.count == 0 || pixels.count == 0) return layout_.has_shares || shares.count > 0;
    const char *some = "in pixels", *others = "normalised (0 to 1)";
    if (shares.count <= pixels.count) std::swap(some, others);
    const Lines& fewer = shares.count > pixels.count ? pixels : shares;
    fail_line({path_, fewer.first},
              cat("the box is ", some, ", as on ", fewer.count, " of ", shares.count + pixels.count,
                  " lines; the others are ", others, "; use one unit throughout"));
  }

 private:
  struct Lines {
    std::size_t count = 0, first = 0;
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
        {.box = box, .class_name = &class_of(line), .is_crowd = line.of(layout_.crowd) == "1"});
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
    Lines& lines = is_small ? share_lines_ : pixel_lines_;
    if (lines.count++ == 0) lines.first = line;
  }

  const std::string& class_of(const CsvLine& line) {
    const std::string name = names_classes() ? line.of(layout_.label) : "object";
    if (name.empty()) fail_line(line.at, cat("has a box without a ", layout_.label.name));
    return class_lines_.emplace(name, line.at.number).first->first;
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
  std::map<std::string, std::size_t> class_lines_{};
  Lines share_lines_{}, pixel_lines_{};
  std::map<std::string, std::int64_t> parts_{};
};

}  // namespace

Instances read_csv(const AnnotationSource& source, AnnotationFiles& files) {
  const CsvReader reader(source, files);
  const bool has_shares = reader.has_shares();
  std::set<std::string> names;
  for (const auto& [name, line] : reader.class_lines()) names.insert(name);
  const ClassIds ids(source, names, files);
  Instances out{.categories = ids.categories()};
  const bool is_one_class = !reader.names_classes() && !source.classes.empty();
  if (is_one_class && out.categories.size() != 1) {
    throw Error(ErrorKind::kData,
                cat(source.path, ": no column names a class, and ", source.classes, " has ",
                    out.categories.size(), " (want one)"));
  }
  std::map<std::string, std::int64_t> id_of;
  for (const auto& [name, line] : reader.class_lines()) {
    id_of[name] = is_one_class ? out.categories[0].id : ids.id_of(name, {source.path, line});
  }
  if (!reader.names_classes() && source.classes.empty()) {
    log_warning(source.path,
                ": no column names a class: all boxes get the class \"object\" "
                "(rename it with --classes FILE, a file with one name)");
  }
  for (const auto& [name, image] : reader.images()) {
    add_image(out, {.file_name = name, .width = image.width, .height = image.height});
    for (const ReadBox& one : image.boxes) {
      add_box(out, one.box, id_of.at(*one.class_name)).iscrowd = one.is_crowd;
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
