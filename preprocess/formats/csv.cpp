// Boxes of a CSV file, a line a box.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "preprocess/formats/class_names.h"
#include "preprocess/formats/image_names.h"
#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/log.h"
#include "shared/base/printable.h"
#include "shared/base/text_encoding.h"

namespace retina {
namespace {

// How a line gives its box.
enum class CsvBox {
  kCorners,        // x1, y1, x2, y2
  kCornerAndSize,  // x, y, width, height
  kCentreAndSize,  // x and y of the centre, width, height
  kList,           // "[x, y, width, height]" in one column, as Kaggle's sets have it
};

// A column's number from 0 and its name in messages.
struct CsvColumn {
  int number = -1;
  std::string name{};
  bool is_there() const { return number >= 0; }

  // Returns its field, without white space at either end and the apostrophe that made a formula
  // text; nothing where there is no such column.
  std::string of(const std::vector<std::string>& fields) const {
    const auto place = static_cast<std::size_t>(number);
    if (!is_there() || place >= fields.size()) return "";
    const std::string_view text = trimmed(fields[place]);
    return std::string(text.substr(text.starts_with('\'') && begins_formula(text) ? 1 : 0));
  }
};

// The meaning of a file's columns, by its header line or by what files without one have.
struct CsvLayout {
  char separator = ',';
  bool has_header = false;  // the first line that is not blank
  std::size_t column_count = 0;
  CsvBox box = CsvBox::kCorners;
  std::vector<CsvColumn> coordinates{};  // in the order of `box`
  // Boxes are shares of the image's sides whatever their values, as Open Images has them; of other
  // files their values tell.
  bool has_shares = false;
  CsvColumn image{}, label{}, width{}, height{};  // the last two: the image's sides
  CsvColumn angle{};                              // of the box
  CsvColumn crowd{};                              // 1: a box around many
  CsvColumn part{};                               // "train", "validation", ...
  std::vector<std::string> ignored{};             // names of other columns
};

constexpr const char* kWanted =
    "want PATH,X1,Y1,X2,Y2,CLASS, or PATH,,,,, for an image without boxes, or a first line that "
    "names the columns, such as filename,xmin,ymin,xmax,ymax,class";

// The columns of files without a header: keras-retinanet's.
constexpr const char* kKerasRetinanet = "path,x1,y1,x2,y2,class";

// The ways to give a box, by plain_word() of their columns' names, each with its synonyms: the
// first whose columns are all there is taken.
constexpr const char* kWidth = "bboxwidth boxwidth bboxw bw w width";
constexpr const char* kHeight = "bboxheight boxheight bboxh bh h height";
const std::vector<std::pair<CsvBox, std::vector<const char*>>> kBoxes{
    {CsvBox::kCorners,
     {"xmin x1 left bboxxmin bboxx1", "ymin y1 top bboxymin bboxy1",
      "xmax x2 right bboxxmax bboxx2", "ymax y2 bottom bboxymax bboxy2"}},
    {CsvBox::kCentreAndSize,
     {"xcenter xcentre centerx centrex cx xc", "ycenter ycentre centery centrey cy yc", kWidth,
      kHeight}},
    {CsvBox::kCornerAndSize,
     {"bboxx boxx bx x xmin x1 left", "bboxy boxy by y ymin y1 top", kWidth, kHeight}},
    {CsvBox::kList, {"bbox boundingbox box"}}};

// The other columns in the order in which they are taken, after the box: the first has a name that
// several would take.
struct Meaning {
  CsvColumn CsvLayout::*column;
  const char* names;  // the first that is there counts
};
constexpr Meaning kMeanings[] = {{&CsvLayout::image,
                                  "filename imagepath imagename imagefile imagefilename filepath "
                                  "path image file imgpath imgname img imageid imgid externalid"},
                                 {&CsvLayout::angle, "angle rotation theta"},
                                 {&CsvLayout::crowd, "iscrowd isgroupof"},
                                 {&CsvLayout::label,
                                  "classname labelname categoryname class label category object "
                                  "name classid labelid categoryid"},
                                 {&CsvLayout::width, "imagewidth imgwidth imgw width"},
                                 {&CsvLayout::height, "imageheight imgheight imgh height"},
                                 {&CsvLayout::part, "set split subset mluse"}};

// Returns comma, but for files of which the first line has none: the decimal comma's countries,
// tables.
char separator_of(const std::string& line) {
  for (const char one : {',', ';', '\t'}) {
    if (split_csv(line, one).size() > 1) return one;
  }
  return ',';
}

class Header {
 public:
  Header(const FileLine& at, const std::vector<std::string>& names) : at_(at) {
    for (const std::string& name : names) {
      names_.emplace_back(trimmed(name));
      words_.push_back(plain_word(name));
    }
  }

  bool has(const char* words) const { return find(words) < words_.size(); }

  // Returns the column of the first of `words` that is a column's.
  CsvColumn take(const char* words) {
    const std::size_t place = find(words);
    if (place == words_.size()) return {};
    const std::string word = std::exchange(words_[place], "");
    if (has(word.c_str())) {
      fail_line(at_, cat("column \"", escaped(names_[place]), "\" appears twice"));
    }
    return {.number = static_cast<int>(place), .name = names_[place]};
  }

  // Without row numbers, whose column has no name.
  std::vector<std::string> unused() const {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (!words_[i].empty() && !words_[i].starts_with("unnamed")) names.push_back(names_[i]);
    }
    return names;
  }

  [[noreturn]] void lacks(const char* what, const char* wanted) const {
    std::string got;
    for (const std::string& name : names_) got += cat(got.empty() ? "" : ",", name);
    fail_line(at_, cat("no column for ", what, " (want ", wanted, ", got \"", escaped(got), "\")"));
  }

 private:
  std::size_t find(const std::string& words) const {
    for (const std::string& word : words_of(words)) {
      const auto found = std::find(words_.begin(), words_.end(), word);
      if (found != words_.end()) return static_cast<std::size_t>(found - words_.begin());
    }
    return words_.size();
  }

  const FileLine at_;
  std::vector<std::string> names_{}, words_{};  // a word that was taken is empty
};

void take_box(Header& header, CsvLayout& layout) {
  for (const auto& [box, columns] : kBoxes) {
    if (!std::all_of(columns.begin(), columns.end(),
                     [&](const char* words) { return header.has(words); })) {
      continue;
    }
    layout.box = box;
    for (const char* words : columns) layout.coordinates.push_back(header.take(words));
    return;
  }
  header.lacks("the box", "xmin,ymin,xmax,ymax or x,y,width,height or bbox");
}

CsvLayout layout_of(const FileLine& at, const std::vector<std::string>& names) {
  Header header(at, names);
  if (header.has("x3")) fail_line(at, "boxes by four corners are not read; export upright boxes");
  CsvLayout layout{.column_count = names.size(), .has_shares = header.has("isgroupof")};
  // YOLOv5's table has the class's number as "class" beside its name.
  if (header.has("class") && header.has("name")) layout.label = header.take("name");
  take_box(header, layout);
  for (const auto& [column, words] : kMeanings) {
    if (!(layout.*column).is_there()) layout.*column = header.take(words);
  }
  if (!layout.image.is_there()) {
    header.lacks("the image", "filename, image_path, image_id or the like");
  }
  layout.ignored = header.unused();
  return layout;
}

// Returns true for a first line that is no data: words where data have numbers.
bool is_header(const std::vector<std::string>& fields) {
  const auto is_known = [](const std::string& field) {
    return name_matches(
        plain_word(field),
        "filename|imagepath|imageid|imagename|xmin|x1|xmax|bbox|label|class|width|x");
  };
  return fields.size() > 1 && std::none_of(fields.begin(), fields.end(), number_of) &&
         std::any_of(fields.begin(), fields.end(), is_known) && !is_image_name(fields[0]);
}

// Returns the layout of a file with these lines. Headers: DeepForest's
// image_path,xmin,ymin,xmax,ymax,label, TensorFlow's filename,width,height,class,xmin,ymin,xmax,
// ymax, Open Images' ImageID,...,LabelName,...,XMin,XMax,YMin,YMax, and what else names its columns
// by such words, whatever their order, case and signs between letters. Throws kData.
CsvLayout csv_layout(const std::string& path, const std::vector<TextLine>& lines) {
  if (lines.empty()) throw Error(ErrorKind::kData, cat(path, ": is empty, ", kWanted));
  const auto& [text, number] = lines.front();
  const char separator = separator_of(text);
  std::vector<std::string> names = split_csv(text, separator);
  const bool has_header = is_header(names);
  if (!has_header) {
    const std::vector<std::string> usual = split_csv(kKerasRetinanet);
    if (names.size() != usual.size()) {
      fail_line({path, number}, cat("has ", counted(names.size(), "field"), ", ", kWanted));
    }
    names = usual;
  }
  CsvLayout layout = layout_of({path, number}, names);
  layout.separator = separator;
  layout.has_header = has_header;
  return layout;
}

constexpr double kMostShare = 1.1;  // boxes drawn by hand reach beyond their image

// Returns the file that a line names: below the folder of images.
std::string name_below(const std::string& given, const std::string& folder, const FileLine& at) {
  if (given.front() != '/') return given;
  const std::string prefix = folder.ends_with('/') ? folder : folder + "/";
  if (!given.starts_with(prefix)) {
    fail_line(at, cat(escaped(given), " is not below ", folder, ", the folder of --images"));
  }
  return given.substr(prefix.size());
}

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
    numbers.push_back(line.number(layout.coordinates[i], texts[i]));
  }
  return numbers;
}

Box box_of(const CsvLine& line, const std::vector<double>& numbers) {
  const CsvBox given = line.layout.box;
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
      : path_(source.path), images_folder_(source.images), names_(source.images) {
    const std::vector<TextLine> lines = files.read_lines(path_, "boxes");
    layout_ = csv_layout(path_, lines);
    for (std::size_t i = layout_.has_header ? 1 : 0; i < lines.size(); ++i) {
      add({.layout = layout_,
           .fields = split_csv(lines[i].text, layout_.separator),
           .at = {path_, lines[i].number}});
    }
    report(lines.front());
  }

  bool names_classes() const { return layout_.label.is_there(); }
  const std::map<std::string, ReadImage>& images() const { return images_; }
  // The line of each class's first box, by the class's name.
  const std::map<std::string, std::size_t>& class_lines() const { return class_lines_; }

  // Returns true if boxes are shares of the image's sides. Throws where some read as shares, some
  // do not: no box is less than a pixel large.
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

  void add(const CsvLine& line) {
    check_length(line);
    const std::string given = line.of(layout_.image);
    if (given.empty()) fail_line(line.at, cat("has no ", layout_.image.name));
    if (layout_.part.is_there()) ++parts_[line.of(layout_.part)];
    if (const std::string angle = line.of(layout_.angle);
        !angle.empty() && line.number(layout_.angle, angle) != 0) {
      fail_line(line.at, cat(layout_.angle.name, ": got ", escaped(angle),
                             ", but rotated boxes cannot be trained on"));
    }
    ReadImage& image = images_[names_.completed(name_below(given, images_folder_, line.at))];
    set_size(image, line);

    // Empty fields, or 0,0,0,0: an image without boxes.
    const std::vector<double> numbers = numbers_of(line);
    if (std::all_of(numbers.begin(), numbers.end(), [](double number) { return number == 0; })) {
      return;
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
    if (!has_more && fields.size() >= wanted) return;
    fail_line(line.at,
              cat("has ", counted(fields.size(), "field"), ", want ", wanted,
                  layout_.has_header
                      ? " as the header has"
                      : ": PATH,X1,Y1,X2,Y2,CLASS, or PATH,,,,, for an image without boxes"));
  }

  void set_size(ReadImage& image, const CsvLine& line) const {
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

  void report(const TextLine& header) const {
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
  const std::string& images_folder_;
  NameCompleter names_;
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
                ": no column names a class: all boxes get the class \"object\" (rename it with "
                "--classes FILE, a file with one name)");
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
