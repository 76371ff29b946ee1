// Which column of a CSV file says what: by its header line, or by what files without one have.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "preprocess/formats/annotation_files.h"

namespace retina {

// How a line gives its box.
enum class CsvBox {
  kCorners,        // x1, y1, x2, y2
  kCornerAndSize,  // x, y, width, height
  kCentreAndSize,  // x and y of the centre, width, height
  kList,           // "[x, y, width, height]" in one column, as Kaggle's sets have it
  kVertices,       // x, y of two to four corners in any order, some of them empty (Google's AutoML)
};

// A column's number from 0 and its name in messages.
struct CsvColumn {
  int number = -1;
  std::string name{};
  bool is_there() const { return number >= 0; }
  // Returns its field, without white space at either end and the apostrophe that made a formula
  // text; nothing where there is no such column.
  std::string of(const std::vector<std::string>& fields) const;
};

struct CsvLayout {
  char separator = ',';
  bool has_header = false;  // the first line that is not blank
  // Of every line; what a line has beyond them is empty.
  std::size_t column_count = 0;
  CsvBox box = CsvBox::kCorners;
  std::vector<CsvColumn> coordinates{};  // in the order of `box`
  // Boxes are shares of the image's sides whatever their values, as Open Images and AutoML have
  // them; of other files their values tell.
  bool has_shares = false;
  CsvColumn image{}, label{}, width{}, height{};  // the last two: the image's sides
  CsvColumn folder{};                             // of the image's file
  CsvColumn angle{};                              // of the box
  CsvColumn crowd{};                              // 1: a box around many
  CsvColumn part{};                               // "train", "validation", ...
  std::vector<std::string> ignored{};             // names of other columns
};

// That of a file with these lines. Headers: DeepForest's image_path,xmin,ymin,xmax,ymax,label,
// TensorFlow's filename,width,height,class,xmin,ymin,xmax,ymax, Open Images'
// ImageID,...,LabelName,...,XMin,XMax,YMin,YMax, and what else names its columns by such words,
// whatever their order, case and signs between letters. Without a header: keras-retinanet's
// path,x1,y1,x2,y2,class and AutoML's [set,]path,label,x,y,x,y,x,y,x,y. Throws kData.
CsvLayout csv_layout(const std::string& path, const std::vector<TextLine>& lines);

}  // namespace retina
