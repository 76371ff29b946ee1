// xView's GeoJSON (Lam et al. 2018): a FeatureCollection with a feature a box, whose pixels are in
// its properties.
#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include "preprocess/formats/class_names.h"
#include "preprocess/formats/image_names.h"
#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/json.h"
#include "shared/base/log.h"
#include "shared/base/printable.h"
#include "shared/coco/entry_reader.h"

namespace retina {
namespace {

constexpr std::int64_t kLeastId = -1'000'000'000;
// Numbers in the published file that its list of classes does not have: slips of its makers.
constexpr std::array<std::int64_t, 2> kNoClasses = {75, 82};

// Reads a list of classes by their numbers: the published "73:Building", or "Building,73".
std::map<std::int64_t, std::string> class_list(const std::string& path, AnnotationFiles& files) {
  std::map<std::int64_t, std::string> names;
  FirstLines known;
  for (const auto& [text, number] : files.read_lines(path, "classes")) {
    const FileLine at{path, number};
    std::string id_text, name;
    if (const std::size_t colon = text.find(':');
        colon != std::string::npos && number_of(text.substr(0, colon))) {
      id_text = text.substr(0, colon);
      name = trimmed(text.substr(colon + 1));
    } else if (const std::vector<std::string> fields = split_csv(text); fields.size() == 2) {
      name = trimmed(fields[0]);
      id_text = fields[1];
    }
    if (!number_of(id_text) || name.empty()) {
      fail_line(at, cat("got \"", escaped(text), "\", want ID:CLASS or CLASS,ID"));
    }
    const std::int64_t id = parse_whole(id_text, "id", at, kLeastId);
    require_first(known, cat(id), at, cat("class ", id));
    names.emplace(id, name);
  }
  if (names.empty()) throw Error(ErrorKind::kData, cat(path, ": has no classes"));
  return names;
}

struct ReadBox {
  Box box{};
  std::int64_t type_id = 0;
  std::string class_name{};  // of retina-eval's GeoJSON
};

class XviewReader {
 public:
  XviewReader(const AnnotationSource& source, AnnotationFiles& files)
      : source_(source), files_(files), file_names_(source.images) {}

  Instances read() {
    files_.add_file(source_.path, "features");
    read_values(source_.path, "features", [&](std::size_t index, const rapidjson::Value& feature) {
      const std::string place = cat(source_.path, ": feature ", index + 1);
      add({feature, place}, {place});
    });
    make();
    report();
    read_image_sizes(source_, out_);
    return std::move(out_);
  }

 private:
  void add(const JsonView& feature, const FileLine& at) {
    const JsonView properties = feature.at("properties");
    const std::string image = properties.at("image_id").as_string();
    if (image.empty() || image.find('\0') != std::string::npos) {
      fail_line(at, cat("image_id: got \"", escaped(image), "\", want a file's name"));
    }
    std::vector<ReadBox>& boxes = images_[file_names_.completed(image)];
    const std::string bounds = properties.at("bounds_imcoords").as_string();
    if (trimmed(bounds).empty()) {
      ++empty_count_;
      return;
    }
    boxes.push_back({.box = box_of(bounds, at), .type_id = type_of(properties.at("type_id"), at)});
    if (properties.has("class") && properties.at("class").raw().IsString()) {
      boxes.back().class_name = properties.at("class").as_string();
    }
  }

  static std::int64_t type_of(const JsonView& value, const FileLine& at) {
    const std::string text = value.raw().IsString() ? value.as_string() : cat(value.as_double());
    return parse_whole(text, "type_id", at, kLeastId);
  }

  // "x1,y1,x2,y2".
  static Box box_of(const std::string& bounds, const FileLine& at) {
    std::vector<double> corners;
    for (const std::string& field : split_csv(bounds)) {
      corners.push_back(parse_number(field, "bounds_imcoords", at));
    }
    if (corners.size() != 4) {
      fail_line(at, cat("bounds_imcoords: got \"", escaped(bounds), "\", want X1,Y1,X2,Y2"));
    }
    if (corners[2] < corners[0] || corners[3] < corners[1]) {
      fail_line(at, cat("bounds_imcoords: got \"", escaped(bounds), "\", want X1 <= X2, Y1 <= Y2"));
    }
    return box_around(corners);
  }

  void make() {
    std::map<std::int64_t, std::string> names;
    if (!source_.classes.empty()) {
      names = class_list(source_.classes, files_);
    } else {
      for (const auto& [image, boxes] : images_) {
        for (const ReadBox& one : boxes) {
          const bool is_named = !one.class_name.empty();
          has_numbers_ = has_numbers_ || !is_named;
          if (!is_named && std::count(kNoClasses.begin(), kNoClasses.end(), one.type_id) > 0) {
            continue;
          }
          names.emplace(one.type_id, is_named ? one.class_name : cat(one.type_id));
        }
      }
    }
    for (const auto& [id, name] : names) out_.categories.push_back({.id = id, .name = name});
    for (const auto& [image, boxes] : images_) {
      add_image(out_, {.file_name = image});
      for (const ReadBox& one : boxes) {
        if (!names.contains(one.type_id)) {
          ++unknown_[one.type_id];
          continue;
        }
        add_box(out_, one.box, one.type_id);
      }
    }
  }

  // "type_id 75: 1 box, type_id 82: 2 boxes".
  std::string unknown_text() const {
    std::vector<std::string> texts;
    for (const auto& [id, count] : unknown_) {
      texts.push_back(cat("type_id ", id, ": ", counted(count, "box", "boxes")));
    }
    return first_names(texts);
  }

  void report() const {
    if (!unknown_.empty()) {
      log_warning(source_.path, ": boxes whose type_id is no class are left out (", unknown_text(),
                  ")");
    }
    if (empty_count_ > 0) {
      log_warning(source_.path, ": ", counted(empty_count_, "feature has", "features have"),
                  " empty bounds_imcoords and no box");
    }
    if (has_numbers_) {
      log_warning(source_.path,
                  ": classes are called by their numbers; to name them, give --classes "
                  "xview_class_labels.txt");
    }
  }

  const AnnotationSource& source_;
  AnnotationFiles& files_;
  NameCompleter file_names_;
  std::map<std::string, std::vector<ReadBox>> images_{};
  std::map<std::int64_t, std::int64_t> unknown_{};  // type_id -> boxes
  std::int64_t empty_count_ = 0;
  bool has_numbers_ = false;  // classes that nothing names
  Instances out_{};
};

}  // namespace

Instances read_xview(const AnnotationSource& source, AnnotationFiles& files) {
  return XviewReader(source, files).read();
}

}  // namespace retina
