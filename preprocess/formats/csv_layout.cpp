#include "preprocess/formats/csv_layout.h"

#include <algorithm>
#include <cctype>

#include "preprocess/formats/image_names.h"
#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/printable.h"
#include "shared/base/text_encoding.h"

namespace retina {
namespace {

using Words = std::vector<const char*>;

constexpr const char* kWanted =
    "want PATH,X1,Y1,X2,Y2,CLASS, or PATH,,,,, for an image without boxes, or a first line that "
    "names the columns, such as filename,xmin,ymin,xmax,ymax,class";

// The letters and digits, in lower case: "x_min", "XMin" and "x min" are the same.
std::string word_of(std::string_view name) {
  std::string word;
  for (const unsigned char c : name) {
    if (c >= 0x80) {
      word += static_cast<char>(c);
    } else if (std::isalnum(c) != 0) {
      word += static_cast<char>(std::tolower(c));
    }
  }
  return word;
}

bool is_one_of(const Words& words, const std::string& field) {
  return std::find(words.begin(), words.end(), word_of(field)) != words.end();
}

// Comma, but for files of which the first line has none: the decimal comma's countries, tables.
char separator_of(const std::string& line) {
  for (const char one : {',', ';', '\t'}) {
    if (split_csv(line, one).size() > 1) return one;
  }
  return ',';
}

std::vector<CsvColumn> numbered(int first, const Words& names) {
  std::vector<CsvColumn> columns;
  for (const char* name : names) columns.push_back({.number = first++, .name = name});
  return columns;
}

// AutoML's first column, where it is there.
bool is_part(const std::string& field) {
  return is_one_of({"train", "training", "validate", "validation", "test", "unassigned"}, field);
}

CsvLayout automl_layout(int first) {
  return {.column_count = static_cast<std::size_t>(first) + 10,
          .box = CsvBox::kVertices,
          .coordinates = numbered(
              first + 2, {"x of vertex 1", "y of vertex 1", "x of vertex 2", "y of vertex 2",
                          "x of vertex 3", "y of vertex 3", "x of vertex 4", "y of vertex 4"}),
          .has_shares = true,
          .image = {.number = first, .name = "path"},
          .label = {.number = first + 1, .name = "label"},
          .part = first == 0 ? CsvColumn{} : CsvColumn{.number = 0, .name = "set"}};
}

class Header {
 public:
  Header(const FileLine& at, const std::vector<std::string>& names)
      : at_(at), names_(names), is_used_(names.size()) {
    for (const std::string& name : names) words_.push_back(word_of(name));
  }

  bool is_automl() const {
    return words_.size() == 11 && std::count(words_.begin(), words_.end(), "xmin") == 2 &&
           std::count(words_.begin(), words_.end(), "ymax") == 2;
  }

  bool has(const Words& words) const { return find(words) >= 0; }

  // The column of the first of `words` that is a column's.
  CsvColumn take(const Words& words) {
    const int number = find(words);
    if (number < 0) return {};
    const auto place = static_cast<std::size_t>(number);
    const auto again = std::find(words_.begin() + number + 1, words_.end(), words_[place]);
    if (again != words_.end()) {
      fail_line(at_, cat("column \"", escaped(names_[place]), "\" appears twice"));
    }
    is_used_[place] = 1;
    return {.number = number, .name = std::string(trimmed(names_[place]))};
  }

  bool has_all(const std::vector<Words>& all) const {
    return std::all_of(all.begin(), all.end(), [this](const Words& one) { return has(one); });
  }

  // Without row numbers, whose column has no name.
  std::vector<std::string> unused() const {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (is_used_[i] == 0 && !words_[i].empty() && !words_[i].starts_with("unnamed")) {
        names.emplace_back(trimmed(names_[i]));
      }
    }
    return names;
  }

  [[noreturn]] void lacks(const char* what, const char* names) const {
    std::string got;
    for (const std::string& name : names_) got += cat(got.empty() ? "" : ",", trimmed(name));
    fail_line(at_, cat("no column for ", what, " (want ", names, ", got \"", escaped(got), "\")"));
  }

 private:
  int find(const Words& words) const {
    for (const char* word : words) {
      for (std::size_t i = 0; i < words_.size(); ++i) {
        if (is_used_[i] == 0 && words_[i] == word) return static_cast<int>(i);
      }
    }
    return -1;
  }

  const FileLine at_;
  const std::vector<std::string>& names_;
  std::vector<std::string> words_{};
  std::vector<char> is_used_;
};

// The columns of a box, by the way that they give it: the first whose columns are all there.
struct BoxColumns {
  CsvBox box;
  std::vector<Words> columns;
};

void take_box(Header& header, CsvLayout& layout) {
  static const Words kWidth{"bboxwidth", "boxwidth", "bboxw", "bw", "w", "width"};
  static const Words kHeight{"bboxheight", "boxheight", "bboxh", "bh", "h", "height"};
  static const std::vector<BoxColumns> kWays{
      {CsvBox::kVertices, {{"x1"}, {"y1"}, {"x2"}, {"y2"}, {"x3"}, {"y3"}, {"x4"}, {"y4"}}},
      {CsvBox::kCorners,
       {{"xmin", "x1", "left", "bboxxmin", "bboxx1"},
        {"ymin", "y1", "top", "bboxymin", "bboxy1"},
        {"xmax", "x2", "right", "bboxxmax", "bboxx2"},
        {"ymax", "y2", "bottom", "bboxymax", "bboxy2"}}},
      {CsvBox::kCentreAndSize,
       {{"xcenter", "xcentre", "centerx", "centrex", "cx", "xc"},
        {"ycenter", "ycentre", "centery", "centrey", "cy", "yc"},
        kWidth,
        kHeight}},
      {CsvBox::kCornerAndSize,
       {{"bboxx", "boxx", "bx", "x", "xmin", "x1", "left"},
        {"bboxy", "boxy", "by", "y", "ymin", "y1", "top"},
        kWidth,
        kHeight}},
      {CsvBox::kList, {{"bbox", "boundingbox", "box"}}}};
  for (const auto& [box, columns] : kWays) {
    if (!header.has_all(columns)) continue;
    layout.box = box;
    for (const Words& words : columns) layout.coordinates.push_back(header.take(words));
    return;
  }
  header.lacks("the box", "xmin,ymin,xmax,ymax or x,y,width,height or bbox");
}

CsvLayout layout_of_header(const FileLine& at, const std::vector<std::string>& names) {
  Header header(at, names);
  if (header.has({"regionshapeattributes"})) {
    throw Error(ErrorKind::kData,
                cat(at.path, ": is a table of VGG Image Annotator, which keeps boxes in JSON"),
                "export its annotations as COCO's JSON, and pack that");
  }
  if (header.is_automl()) return automl_layout(1);

  // A word may be of several columns' names: who takes it first has it.
  CsvLayout layout;
  layout.image = header.take({"filename", "imagepath", "imagename", "imagefile", "imagefilename",
                              "filepath", "path", "image", "file", "imgpath", "imgname", "img",
                              "imageid", "imgid", "externalid"});
  if (!layout.image.is_there()) {
    header.lacks("the image", "filename, image_path, image_id or the like");
  }
  layout.folder = header.take({"folder", "directory", "dir"});
  take_box(header, layout);
  layout.angle = header.take({"angle", "rotation", "theta"});
  layout.has_shares = header.has({"isgroupof"});  // Open Images
  layout.crowd = header.take({"iscrowd", "isgroupof"});
  // YOLOv5's table has the class's number as "class" beside its name.
  const bool is_yolov5 = header.has({"class"}) && header.has({"name"});
  layout.label = header.take(is_yolov5 ? Words{"name"}
                                       : Words{"classname", "labelname", "categoryname", "class",
                                               "label", "category", "object", "name", "classid",
                                               "labelid", "categoryid"});
  layout.width = header.take({"imagewidth", "imgwidth", "imgw", "width"});
  layout.height = header.take({"imageheight", "imgheight", "imgh", "height"});
  layout.part = header.take({"set", "split", "subset", "mluse"});
  layout.ignored = header.unused();
  return layout;
}

// A first line that is no data: words where data have numbers.
bool is_header(const std::vector<std::string>& fields) {
  static const Words kKnown{"filename", "imagepath", "imageid", "imagename", "xmin",  "x1",
                            "xmax",     "bbox",      "label",   "class",     "width", "x"};
  const auto any = [&](const auto& is_so) {
    return std::any_of(fields.begin(), fields.end(), is_so);
  };
  return fields.size() > 1 && !any([](const std::string& one) { return number_of(one); }) &&
         any([](const std::string& one) { return is_one_of(kKnown, one); }) &&
         !is_image_name(fields[0]);
}

}  // namespace

std::string CsvColumn::of(const std::vector<std::string>& fields) const {
  const auto place = static_cast<std::size_t>(number);
  if (!is_there() || place >= fields.size()) return "";
  const std::string_view text = trimmed(fields[place]);
  return std::string(text.substr(text.starts_with('\'') && begins_formula(text) ? 1 : 0));
}

CsvLayout csv_layout(const std::string& path, const std::vector<TextLine>& lines) {
  if (lines.empty()) throw Error(ErrorKind::kData, cat(path, ": is empty, ", kWanted));
  const auto& [text, number] = lines.front();
  if (trimmed(text).starts_with('{') || trimmed(text).starts_with('[')) {
    throw Error(ErrorKind::kData, cat(path, ": is JSON, want CSV"),
                "give --format coco where it is COCO's instances JSON");
  }
  const char separator = separator_of(text);
  const std::vector<std::string> fields = split_csv(text, separator);
  CsvLayout layout;
  if (is_header(fields)) {
    layout = layout_of_header({path, number}, fields);
    layout.has_header = true;
    layout.column_count = fields.size();
  } else if (is_part(fields[0]) || fields.size() == 10 || fields.size() == 11) {
    layout = automl_layout(is_part(fields[0]) ? 1 : 0);
  } else if (fields.size() == 6) {
    layout = {.column_count = 6,
              .coordinates = numbered(1, {"x1", "y1", "x2", "y2"}),
              .image = {.number = 0, .name = "path"},
              .label = {.number = 5, .name = "class"}};
  } else {
    fail_line({path, number}, cat("has ", counted(fields.size(), "field"), ", ", kWanted));
  }
  layout.separator = separator;
  return layout;
}

}  // namespace retina
