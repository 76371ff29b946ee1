// Pascal VOC's annotations: an XML file an image.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <pugixml.hpp>
#include <set>

#include "preprocess/formats/class_names.h"
#include "preprocess/formats/image_names.h"
#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/file_spelling.h"
#include "shared/base/image_folder.h"
#include "shared/base/log.h"
#include "shared/base/printable.h"

namespace retina {

namespace {

// One XML file.
class VocFile {
 public:
  VocFile(std::string path, std::string text) : path_(std::move(path)), text_(std::move(text)) {
    for (std::size_t at = 0; (at = text_.find('\n', at)) != std::string::npos; ++at) {
      line_ends_.push_back(static_cast<std::ptrdiff_t>(at));
    }
    const pugi::xml_parse_result result =
        document_.load_buffer(text_.data(), text_.size(), pugi::parse_default, pugi::encoding_utf8);
    if (!result) fail_line(line_at(result.offset), cat("is not XML: ", result.description()));
    if (const std::size_t entity = text_.find("<!ENTITY"); entity != std::string::npos) {
      fail_line(line_at(static_cast<std::ptrdiff_t>(entity)),
                "declares an entity, which is not read; write its text where it is used");
    }
    root_ = document_.child("annotation");
    if (!root_) {
      const pugi::xml_node other = document_.document_element();
      fail_line({path_, 1}, cat("has no <annotation>, but <", escaped(other.name()),
                                ">; want an XML file an image, as Pascal VOC has them"));
    }
    if (const pugi::xml_node second = root_.next_sibling("annotation")) {
      fail(second, "has a second <annotation>, want a file an image");
    }
    require_one(root_, "filename");
  }

  const std::string& path() const { return path_; }
  pugi::xml_node root() const { return root_; }
  auto objects() const { return root_.children("object"); }

  FileLine line_of(const pugi::xml_node& node) const { return line_at(node.offset_debug()); }
  [[noreturn]] void fail(const pugi::xml_node& node, const std::string& problem) const {
    fail_line(line_of(node), problem);
  }

  pugi::xml_node child(const pugi::xml_node& node, const char* name) const {
    const pugi::xml_node found = node.child(name);
    if (!found) fail(node, cat("<", node.name(), "> has no <", name, ">"));
    return found;
  }
  // Without white space around it.
  std::string text(const pugi::xml_node& node, const char* name) const {
    const pugi::xml_node found = child(node, name);
    const std::string value(trimmed(raw_text(found)));
    if (value.empty()) fail(found, cat("<", name, "> is empty"));
    return value;
  }
  std::string raw_text(const pugi::xml_node& node) const {
    std::string value = node.text().get();
    require_utf8(value, path_, line_of(node).number);
    return value;
  }
  void require_one(const pugi::xml_node& node, const char* name) const {
    const pugi::xml_node second = node.child(name).next_sibling(name);
    if (second) fail(second, cat("<", node.name(), "> has two <", name, ">, want one"));
  }
  double number(const pugi::xml_node& node, const char* name) const {
    require_one(node, name);
    const pugi::xml_node found = child(node, name);
    return parse_number(found.text().get(), name, line_of(found));
  }

 private:
  FileLine line_at(std::ptrdiff_t offset) const {
    const auto next = std::lower_bound(line_ends_.begin(), line_ends_.end(), offset);
    return {path_, static_cast<std::size_t>(next - line_ends_.begin()) + 1};
  }

  std::string path_, text_;
  std::vector<std::ptrdiff_t> line_ends_{};
  pugi::xml_document document_;
  pugi::xml_node root_;
};

// Returns 0 where the file does not say.
int side_of(const VocFile& file, const char* name) {
  const pugi::xml_node found = file.root().child("size").child(name);
  if (!found) return 0;
  return static_cast<int>(parse_whole(found.text().get(), name, file.line_of(found), 0));
}

// Throws for a rotated box, and for two boxes or names.
void check_shape(const VocFile& file, const pugi::xml_node& object) {
  const pugi::xml_node box = object.child("bndbox");
  file.require_one(object, "bndbox");
  file.require_one(object, "name");
  // CVAT's, which keeps the box upright.
  for (const pugi::xml_node attribute : object.child("attributes").children("attribute")) {
    const bool is_angle = std::strcmp(attribute.child_value("name"), "rotation") == 0;
    if (!is_angle || attribute.child("value").text().as_double() == 0) continue;
    file.fail(attribute, "<object> has a rotation, but rotated boxes cannot be trained on");
  }
  if (box.child("angle").text().as_double() != 0) {
    file.fail(box.child("angle"),
              "<bndbox> has an <angle>, but rotated boxes cannot be trained on");
  }
}

std::array<double, 4> box_of(const VocFile& file, const pugi::xml_node& object) {
  check_shape(file, object);
  const pugi::xml_node box = file.child(object, "bndbox");
  const double left = file.number(box, "xmin"), top = file.number(box, "ymin");
  const double width = file.number(box, "xmax") - left, height = file.number(box, "ymax") - top;
  if (width < 0 || height < 0) {
    file.fail(box, cat(width < 0 ? "xmax is less than xmin" : "ymax is less than ymin"));
  }
  return {left, top, width, height};
}

std::string stem_of(const std::string& xml_name) {
  return xml_name.substr(0, xml_name.rfind('.'));
}

// Boxes elsewhere would be lost without a word.
void check_objects(const VocFile& file) {
  if (file.root().child("object")) return;
  const pugi::xml_node box = file.root().find_node(
      [](const pugi::xml_node& node) { return std::strcmp(node.name(), "bndbox") == 0; });
  if (!box) return;
  file.fail(box, cat("<bndbox> is in <", box.parent().name(),
                     ">, want it in an <object> of <annotation>"));
}

// The images to take, of those whose XML files are in a folder.
class VocSelection {
 public:
  // `path` is the folder Annotations, or a list ImageSets/Main/NAME.txt beside it.
  VocSelection(const std::string& path, AnnotationFiles& files) : path_(path), folder_(path) {
    if (is_folder(path) || !path_exists(path)) return;
    const std::filesystem::path list = std::filesystem::absolute(path).lexically_normal();
    folder_ = (list.parent_path().parent_path().parent_path() / "Annotations").string();
    if (!is_folder(folder_)) {
      throw Error(ErrorKind::kNoInput,
                  cat(path, ": is a list, and ", folder_, ", for its XML files, is not a folder"),
                  "a list belongs into DIR/ImageSets/Main, its XML files into DIR/Annotations");
    }
    lines_ = files.read_lines(path, "list");
    for (auto& [name, number] : *lines_) {
      name = std::string(trimmed(name));
      require_first(line_of_, name, {path, number}, escaped(name));
    }
    if (lines_->empty()) throw Error(ErrorKind::kData, cat(path, ": lists no images"));
  }

  const std::string& folder() const { return folder_; }
  bool has_all() const { return !lines_; }
  bool has(const std::string& xml) const { return !lines_ || line_of_.contains(stem_of(xml)); }

  // Throws when the list has a line without its file among `xml_names`.
  void check_against(const std::vector<std::string>& xml_names) const {
    if (!lines_) return;
    std::set<std::string> stems;
    for (const std::string& xml : xml_names) stems.insert(stem_of(xml));
    for (const auto& [name, number] : *lines_) {
      if (stems.contains(name)) continue;
      const std::string last = name.substr(name.find_last_of(" \t") + 1);
      if (last != name && (last == "-1" || last == "0" || last == "1")) {
        throw Error(
            ErrorKind::kData,
            cat(path_, ": line ", number, ": got \"", escaped(name), "\", want a name alone"),
            "this is the list of one class; give --annotations ImageSets/Main/train.txt");
      }
      fail_line({path_, number}, cat(escaped(name), ".xml is not in ", folder_));
    }
  }

 private:
  std::string path_, folder_;
  std::optional<std::vector<TextLine>> lines_{};  // of the list, where there is one
  FirstLines line_of_{};                          // of XML files without their endings
};

// Reads the XML files of a source; what their classes' ids are shows when all are read.
class VocReader {
 public:
  VocReader(const AnnotationSource& source, AnnotationFiles& files)
      : source_(source), files_(files), folder_(source.images) {}

  Instances read() {
    const VocSelection selection(source_.path, files_);
    const std::vector<std::string> xml_names = files_below(selection.folder(), ".xml");
    selection.check_against(xml_names);
    for (const std::string& name : xml_names) {
      const std::string path = cat(selection.folder(), "/", name);
      const VocFile file(path, files_.read(path, name, EncodingIn::kXml));
      // Of all files, so that training and validation lists get the same ids.
      for (const pugi::xml_node object : file.objects()) classes_.know(file.text(object, "name"));
      check_objects(file);
      if (selection.has(name)) add(file, name);
    }
    if (out_.images.empty()) {
      throw Error(ErrorKind::kData, cat(source_.path, ": has no XML files"),
                  "give --annotations the folder Annotations of the data set, or a list of its "
                  "ImageSets/Main");
    }
    classes_.set_ids(source_, files_, out_);
    report_difficult(source_.path, difficult_count_);
    if (selection.has_all()) report_unlabelled(xml_names);
    read_image_sizes(source_, out_);
    return std::move(out_);
  }

 private:
  // A folder that is labelled in part looks like a whole one.
  void report_unlabelled(const std::vector<std::string>& xml_names) const {
    std::set<std::string> labelled;
    for (const auto& [image, xml] : xml_of_) labelled.insert(std::filesystem::path(image).stem());
    for (const std::string& xml : xml_names) labelled.insert(last_part(stem_of(xml)));
    std::vector<std::string> left;
    for (const std::string& name : files_below(source_.images)) {
      const std::string stem = std::filesystem::path(name).stem();
      if (is_image_name(name) && !labelled.contains(stem)) left.push_back(escaped(name));
    }
    if (left.empty()) return;
    log_info(source_.images, ": ", counted(left.size(), "image"),
             " left out without an XML file (first: ", left.front(),
             "); where they show no object, one without <object> says so");
  }

  // Returns <filename>, or where there is none the XML file's name without its ending, which the
  // image folder does not need. Images may lie in folders as their XML files do.
  std::string image_of(const VocFile& file, const std::string& xml_name) const {
    std::string name(trimmed(file.raw_text(file.root().child("filename"))));
    if (name.empty()) name = last_part(stem_of(xml_name));
    const std::string beside = xml_name.substr(0, xml_name.rfind('/') + 1) + name;
    FoundFile found;
    return beside != name && !folder_.find(beside, found) ? beside : name;
  }

  void add(const VocFile& file, const std::string& xml_name) {
    add_image(out_, {.file_name = image_of(file, xml_name),
                     .width = side_of(file, "width"),
                     .height = side_of(file, "height")});
    const std::string& image = out_.images.back().file_name;
    const auto [first, is_new] = xml_of_.emplace(image, xml_name);
    if (!is_new) {
      file.fail(file.root().child("filename"), cat("describes ", escaped(image), ", which ",
                                                   escaped(first->second), " already describes"));
    }
    for (const pugi::xml_node object : file.objects()) {
      add_box(out_, box_of(file, object));
      classes_.add(file.text(object, "name"), file.line_of(object));
      difficult_count_ += object.child("difficult").text().as_int() != 0 ? 1 : 0;
    }
  }

  const AnnotationSource& source_;
  AnnotationFiles& files_;
  ImageFolder folder_;
  BoxClasses classes_{};
  Instances out_{};
  std::map<std::string, std::string> xml_of_{};  // image -> XML file
  std::int64_t difficult_count_ = 0;
};

}  // namespace

Instances read_voc(const AnnotationSource& source, AnnotationFiles& files) {
  return VocReader(source, files).read();
}

}  // namespace retina
