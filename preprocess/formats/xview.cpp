// xView's GeoJSON (Lam et al. 2018): a FeatureCollection with a feature a box, whose pixels are in
// its properties.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "preprocess/formats/class_names.h"
#include "preprocess/formats/image_names.h"
#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/json.h"
#include "shared/base/log.h"
#include "shared/base/printable.h"

namespace retina {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
// One feature has less than 1 KB.
constexpr std::size_t kMostFeatureBytes = std::size_t{64} << 20;
constexpr std::int64_t kLeastId = -1'000'000'000;
// Numbers in the published file that its list of classes does not have: slips of its makers.
constexpr std::array<std::int64_t, 2> kNoClasses = {75, 82};

// Cuts a text that comes in pieces into the objects of its root's list "features" and the rest.
class FeatureCutter {
 public:
  explicit FeatureCutter(const std::string& path) : path_(path) {}

  // Calls take(text, line) for each feature that ends in this piece; the line has the feature's
  // number too, because most tools write a file of one line.
  template <class Take>
  void add(std::string_view piece, const Take& take) {
    for (const char c : piece) {
      const bool was_inside = is_inside();
      step(c);
      if (is_inside() || was_inside) {
        feature_ += c;
      } else {
        rest_ += c;
      }
      if (feature_.size() > kMostFeatureBytes) fail_line({name_, feature_line_}, "is too long");
      if (was_inside && !is_inside()) {
        take(feature_, FileLine{name_, feature_line_});
        feature_.clear();
        rest_ += "{}";
      }
    }
  }

  // The whole text with {} for each feature.
  const std::string& rest() const { return rest_; }

 private:
  static constexpr std::size_t kDepth = 3;  // root, list, feature

  bool is_inside() const { return depth_ >= kDepth && in_features_; }

  void step(char c) {
    if (c == '\n') ++line_;
    if (in_string_) {
      if (is_escaped_) {
        is_escaped_ = false;
      } else if (c == '\\') {
        is_escaped_ = true;
      } else if (c == '"') {
        in_string_ = false;
      } else if (depth_ == 1) {
        key_ += c;
      }
      return;
    }
    if (c == '"') {
      in_string_ = true;
      if (depth_ == 1) key_.clear();
    } else if (c == '{' || c == '[') {
      if (++depth_ == 2) in_features_ = c == '[' && key_ == "features";
      if (is_inside() && depth_ == kDepth) {
        name_ = cat(path_, ": feature ", ++count_);
        feature_line_ = line_;
      }
    } else if ((c == '}' || c == ']') && depth_ > 0) {
      --depth_;
    }
  }

  const std::string& path_;
  std::string feature_{}, name_{}, rest_{}, key_{};
  std::size_t depth_ = 0, line_ = 1, feature_line_ = 0, count_ = 0;
  bool in_string_ = false, is_escaped_ = false, in_features_ = false;
};

// A list of classes by their numbers: the published "73:Building", or "Building,73".
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
      : source_(source), files_(files) {}

  Instances read() {
    FeatureCutter cutter(source_.path);
    files_.read_pieces(source_.path, "features", kPieceBytes, [&](std::string_view piece) {
      cutter.add(piece, [&](const std::string& text, const FileLine& at) { take(text, at); });
    });
    check_rest(cutter.rest());
    name_files();
    make();
    tell();
    read_image_sizes(source_, out_);
    return std::move(out_);
  }

 private:
  // A part of the file, or the file with its features left out; where that is no JSON, the whole
  // file says where.
  JsonFile parsed(const std::string& text, const std::string& name) const {
    try {
      return JsonFile::parse_foreign(text, name);
    } catch (const Error&) {
      check_foreign_json_file(source_.path);
      throw;
    }
  }

  // JSON with nothing but objects among its features.
  void check_rest(const std::string& rest) const {
    const JsonFile file = parsed(rest, source_.path);
    const JsonView root = file.root();
    if (!root.raw().IsObject() || !root.has("features") || !root.at("features").raw().IsArray()) {
      throw Error(ErrorKind::kData, cat(source_.path, ": has no list \"features\""),
                  "give --annotations xView's GeoJSON (a FeatureCollection)");
    }
    const JsonView features = root.at("features");
    for (std::size_t i = 0; i < features.size(); ++i) {
      if (!features.at(i).raw().IsObject()) {
        throw Error(ErrorKind::kData, cat(source_.path, ": feature ", i + 1, ": is not an object"));
      }
    }
  }

  void take(const std::string& text, const FileLine& at) {
    const JsonFile file = parsed(text, cat(at.path, ": line ", at.number));
    const JsonView feature = file.root();
    if (!feature.raw().IsObject()) fail_line(at, "is not an object");
    if (!feature.has("properties") || !feature.at("properties").raw().IsObject()) {
      fail_line(at, "has no \"properties\"");
    }
    const JsonView properties = feature.at("properties");
    const std::string image = value_of(properties, "image_id", at).as_string();
    if (image.empty()) fail_line(at, "image_id is empty");
    if (image.find('\0') != std::string::npos) {
      fail_line(at, cat("image_id: got \"", escaped(image), "\", want a name without NUL"));
    }
    std::vector<ReadBox>& boxes = images_[image];
    const std::string bounds = value_of(properties, "bounds_imcoords", at).as_string();
    if (trimmed(bounds).empty()) {
      ++empty_count_;
      return;
    }
    boxes.push_back(
        {.box = box_of(bounds, at), .type_id = type_of(value_of(properties, "type_id", at), at)});
    if (properties.has("class") && properties.at("class").raw().IsString()) {
      boxes.back().class_name = properties.at("class").as_string();
    }
  }

  static JsonView value_of(const JsonView& properties, const char* key, const FileLine& at) {
    if (!properties.has(key)) {
      fail_line(at, cat("has no \"", key, "\", want xView's properties bounds_imcoords, ",
                        "type_id and image_id"));
    }
    return properties.at(key);
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
    for (const std::size_t i : {0, 1}) {
      if (corners[i + 2] >= corners[i]) continue;
      fail_line(at, cat("bounds_imcoords: got \"", escaped(bounds), "\", whose second corner is ",
                        i == 0 ? "left of" : "above", " the first"));
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

  // Some tools write an image_id without its file's ending.
  void name_files() {
    std::optional<ImageNames> listed;
    std::map<std::string, std::vector<ReadBox>> named;
    for (auto& [image, boxes] : images_) {
      const std::string* whole = nullptr;
      if (!is_image_name(image)) {
        if (!listed) listed.emplace(files_below(source_.images));
        whole = listed->find(image);
      }
      std::vector<ReadBox>& all = named[whole != nullptr ? *whole : image];
      all.insert(all.end(), boxes.begin(), boxes.end());
    }
    images_ = std::move(named);
  }

  // "type_id 75: 1 box, type_id 82: 2 boxes".
  std::string unknown_text() const {
    std::vector<std::string> texts;
    for (const auto& [id, count] : unknown_) {
      texts.push_back(cat("type_id ", id, ": ", counted(count, "box", "boxes")));
    }
    return first_names(texts);
  }

  void tell() const {
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
                  ": classes are called by their numbers; to name them, give "
                  "--classes xview_class_labels.txt");
    }
  }

  const AnnotationSource& source_;
  AnnotationFiles& files_;
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
