#include "preprocess/formats/csv_layout.h"

#include <algorithm>
#include <utility>

#include "preprocess/formats/image_names.h"
#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/printable.h"
#include "shared/base/text_encoding.h"

namespace retina {
namespace {

constexpr const char* kWanted =
    "want PATH,X1,Y1,X2,Y2,CLASS, or PATH,,,,, for an image without boxes, or a first line that "
    "names the columns, such as filename,xmin,ymin,xmax,ymax,class";

// The columns of files without a header.
constexpr const char* kKerasRetinanet = "path,x1,y1,x2,y2,class";
constexpr const char* kAutoMl = "set,path,label,x1,y1,x2,y2,x3,y3,x4,y4";  // or without the first

// The ways to give a box, by plain_word() of their columns' names, each with its synonyms: the
// first whose columns are all there is taken.
constexpr const char* kWidth = "bboxwidth boxwidth bboxw bw w width";
constexpr const char* kHeight = "bboxheight boxheight bboxh bh h height";
const std::vector<std::pair<CsvBox, std::vector<const char*>>> kBoxes{
    {CsvBox::kVertices, {"x1", "y1", "x2", "y2", "x3", "y3", "x4", "y4"}},
    {CsvBox::kCorners,
     {"xmin x1 left bboxxmin bboxx1", "ymin y1 top bboxymin bboxy1",
      "xmax x2 right bboxxmax bboxx2", "ymax y2 bottom bboxymax bboxy2"}},
    {CsvBox::kCentreAndSize,
     {"xcenter xcentre centerx centrex cx xc", "ycenter ycentre centery centrey cy yc", kWidth,
      kHeight}},
    {CsvBox::kCornerAndSize,
     {"bboxx boxx bx x xmin x1 left", "bboxy boxy by y ymin y1 top", kWidth, kHeight}},
    {CsvBox::kList, {"bbox boundingbox box"}}};

// The other columns in the order in which they are taken, after the box: who comes first has a name
// that several would take.
struct Meaning {
  CsvColumn CsvLayout::*column;
  const char* names;  // the first that is there counts
};
constexpr Meaning kMeanings[] = {
    {&CsvLayout::image,
     "filename imagepath imagename imagefile imagefilename filepath path image file imgpath "
     "imgname img imageid imgid externalid"},
    {&CsvLayout::folder, "folder directory dir"},
    {&CsvLayout::angle, "angle rotation theta"},
    {&CsvLayout::crowd, "iscrowd isgroupof"},
    {&CsvLayout::label,
     "classname labelname categoryname class label category object name classid labelid "
     "categoryid"},
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
  if (header.has("regionshapeattributes")) {
    throw Error(ErrorKind::kData,
                cat(at.path, ": is a table of VGG Image Annotator, which keeps boxes in JSON"),
                "export its annotations as COCO's JSON, and pack that");
  }
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

// Says whether a first line is no data: words where data have numbers.
bool is_header(const std::vector<std::string>& fields) {
  const auto is_known = [](const std::string& field) {
    return name_matches(
        plain_word(field),
        "filename|imagepath|imageid|imagename|xmin|x1|xmax|bbox|label|class|width|x");
  };
  return fields.size() > 1 && std::none_of(fields.begin(), fields.end(), number_of) &&
         std::any_of(fields.begin(), fields.end(), is_known) && !is_image_name(fields[0]);
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
  std::vector<std::string> names = split_csv(text, separator);
  const bool has_header = is_header(names);
  const bool has_part =
      name_matches(plain_word(names[0]), "train(ing)?|validat(e|ion)|test|unassigned");
  const auto count_of = [&](const char* word) {
    return std::count_if(names.begin(), names.end(),
                         [&](const std::string& name) { return plain_word(name) == word; });
  };
  const bool is_automl = has_header ? names.size() == 11 && count_of("xmin") == 2
                                    : has_part || names.size() == 10 || names.size() == 11;
  if (is_automl) {
    const std::string all = kAutoMl;
    names = split_csv(has_header || has_part ? all : all.substr(all.find(',') + 1));
  } else if (!has_header && names.size() == 6) {
    names = split_csv(kKerasRetinanet);
  } else if (!has_header) {
    fail_line({path, number}, cat("has ", counted(names.size(), "field"), ", ", kWanted));
  }
  CsvLayout layout = layout_of({path, number}, names);
  layout.separator = separator;
  layout.has_header = has_header;
  layout.has_shares |= is_automl;
  return layout;
}

}  // namespace retina
