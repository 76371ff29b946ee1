// DOTA's labels (Xia et al. 2018): a text file an image, an object a line by its four corners.
#include <algorithm>
#include <filesystem>
#include <map>
#include <vector>

#include "preprocess/formats/class_names.h"
#include "preprocess/formats/image_names.h"
#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/log.h"
#include "shared/base/printable.h"

namespace retina {
namespace {

constexpr std::size_t kCorners = 8;  // numbers of four

// The lines before the objects, where a file has them.
bool is_about_the_image(std::string_view line) {
  line = trimmed(line);
  return line.starts_with("imagesource:") || line.starts_with("gsd:");
}

class DotaReader {
 public:
  DotaReader(const AnnotationSource& source, AnnotationFiles& files)
      : source_(source), files_(files), images_(images_of(files_below(source.images))) {}

  Instances read() {
    const std::vector<std::string> names = files_below(source_.path, ".txt");
    if (names.empty()) {
      throw Error(ErrorKind::kData, cat(source_.path, ": has no text files"),
                  "give --annotations the folder labelTxt of the data set");
    }
    for (const std::string& name : names) add(name);
    report_unlabelled();
    classes_.set_ids(source_, files_, out_);
    report_difficult(source_.path, difficult_count_);
    read_image_sizes(source_, out_);
    return std::move(out_);
  }

 private:
  // Returns the image of a label file: images lie as their label files do, or all in one folder.
  // Where several are called so, it is DOTA's own, a PNG.
  std::string image_of(const std::string& label_name) const {
    const std::string stem = std::filesystem::path(label_name).replace_extension().generic_string();
    const std::string last = stem.substr(stem.rfind('/') + 1);
    for (const std::string& name : {stem, last}) {
      for (const std::string& whole : {name, name + ".png"}) {
        if (const std::string* const image = images_.find(whole)) return *image;
      }
    }
    return last + ".png";
  }

  void report_unlabelled() const {
    const std::vector<std::string> unlabelled = names_without(images_.all(), label_of_);
    if (unlabelled.empty()) return;
    log_info(source_.images, ": ", unlabelled.size(), " of ", images_.all().size(),
             " images have no label file and are not packed (", first_names(unlabelled), ")");
  }

  void add(const std::string& label_name) {
    const std::string path = cat(source_.path, "/", label_name);
    const std::string image = image_of(label_name);
    const auto [first, is_new] = label_of_.emplace(image, label_name);
    if (!is_new) {
      throw Error(ErrorKind::kData,
                  cat(path, ": describes ", escaped(image), ", which ", escaped(first->second),
                      " already describes"),
                  cat("give --annotations the folder of one set, as ",
                      std::filesystem::path(path).parent_path().string()));
    }
    add_image(out_, {.file_name = image});
    for (const TextLine& line : files_.read_lines(path, label_name)) {
      if (!is_about_the_image(line.text)) add_object(line.text, {path, line.number});
    }
  }

  void add_object(const std::string& text, const FileLine& at) {
    const std::vector<std::string> words = words_of(text);
    const bool begins_with_class =
        words.size() == kCorners + 1 && std::all_of(words.begin(), words.end(), number_of);
    if (begins_with_class || words.size() < kCorners + 1 || words.size() > kCorners + 2) {
      fail_line(at, cat("got \"", escaped(text), "\", want X1 Y1 X2 Y2 X3 Y3 X4 Y4 CLASS DIFFICULT",
                        begins_with_class ? " (YOLO's labels begin with the class)" : ""));
    }
    std::vector<double> points;
    for (std::size_t i = 0; i < kCorners; ++i) {
      points.push_back(parse_number(words[i], cat(i % 2 == 0 ? "x" : "y", i / 2 + 1).c_str(), at));
    }
    add_box(out_, box_around(points));
    classes_.add(words[kCorners], at);
    const bool has_mark = words.size() == kCorners + 2;
    if (has_mark && parse_number(words.back(), "difficult", at) != 0) ++difficult_count_;
  }

  const AnnotationSource& source_;
  AnnotationFiles& files_;
  ImageNames images_;
  BoxClasses classes_{};
  Instances out_{};
  std::map<std::string, std::string> label_of_{};  // image -> label file
  std::int64_t difficult_count_ = 0;
};

}  // namespace

Instances read_dota(const AnnotationSource& source, AnnotationFiles& files) {
  return DotaReader(source, files).read();
}

}  // namespace retina
