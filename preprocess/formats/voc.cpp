#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <pugixml.hpp>
#include <set>

#include "preprocess/formats/parts.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/log.h"
#include "shared/base/printable.h"

namespace retina {

namespace {

// One XML file.
class VocFile {
 public:
  VocFile(std::string path, std::string text) : path_(std::move(path)), text_(std::move(text)) {
    const pugi::xml_parse_result result =
        document_.load_buffer(text_.data(), text_.size(), pugi::parse_default, pugi::encoding_utf8);
    if (!result) fail_line(path_, line_at(result.offset), result.description());
    root_ = document_.child("annotation");
    if (!root_) fail_line(path_, 1, "has no <annotation>");
  }

  const std::string& path() const { return path_; }
  pugi::xml_node root() const { return root_; }

  std::size_t line_of(const pugi::xml_node& node) const { return line_at(node.offset_debug()); }

  pugi::xml_node child(const pugi::xml_node& node, const char* name) const {
    const pugi::xml_node found = node.child(name);
    if (!found) fail_line(path_, line_of(node), cat("<", node.name(), "> has no <", name, ">"));
    return found;
  }
  std::string text(const pugi::xml_node& node, const char* name) const {
    const pugi::xml_node found = child(node, name);
    std::string value = found.text().get();
    if (value.empty()) fail_line(path_, line_of(found), cat("<", name, "> is empty"));
    require_utf8(value, path_, line_of(found));
    return value;
  }
  double number(const pugi::xml_node& node, const char* name) const {
    const pugi::xml_node found = child(node, name);
    return parse_number(found.text().get(), name, path_, line_of(found));
  }

 private:
  std::size_t line_at(std::ptrdiff_t offset) const {
    const auto end = text_.begin() + std::clamp<std::ptrdiff_t>(offset, 0, std::ssize(text_));
    return static_cast<std::size_t>(std::count(text_.begin(), end, '\n')) + 1;
  }

  std::string path_, text_;
  pugi::xml_document document_;
  pugi::xml_node root_;
};

// 0 where the file does not say.
int side_of(const VocFile& file, const char* name) {
  const pugi::xml_node found = file.root().child("size").child(name);
  if (!found) return 0;
  const double side = parse_number(found.text().get(), name, file.path(), file.line_of(found));
  if (side < 0 || side > 1e9 || side != static_cast<int>(side)) {
    fail_line(file.path(), file.line_of(found),
              cat(name, ": got ", found.text().get(), ", want a whole number of pixels"));
  }
  return static_cast<int>(side);
}

std::array<double, 4> box_of(const VocFile& file, const pugi::xml_node& object) {
  const pugi::xml_node box = file.child(object, "bndbox");
  const double left = file.number(box, "xmin"), top = file.number(box, "ymin");
  const double width = file.number(box, "xmax") - left, height = file.number(box, "ymax") - top;
  if (width < 0 || height < 0) {
    fail_line(file.path(), file.line_of(box),
              cat(width < 0 ? "xmax is less than xmin" : "ymax is less than ymin"));
  }
  return {left, top, width, height};
}

struct NamedBox {
  std::string name{};
  std::array<double, 4> box{};
  std::string path{};
  std::size_t line = 0;
  std::int64_t image_id = 0;
};

// The images to take, of those whose XML files are in a folder.
class VocSelection {
 public:
  // `path` is the folder Annotations, or a list ImageSets/Main/NAME.txt beside it.
  VocSelection(const std::string& path, AnnotationFiles& files) : path_(path), folder_(path) {
    if (is_folder(path) || !path_exists(path)) return;
    const std::filesystem::path list = std::filesystem::absolute(path).lexically_normal();
    folder_ = (list.parent_path().parent_path().parent_path() / "Annotations").string();
    if (!is_folder(folder_)) {
      throw Error(ErrorKind::kNoInput, cat(folder_, ": is not a folder"),
                  "a list belongs into DIR/ImageSets/Main, its XML files into DIR/Annotations");
    }
    lines_ = files.read_lines(path, "list");
    for (std::size_t line = 1; line <= lines_->size(); ++line) {
      std::string& name = (*lines_)[line - 1];
      name.erase(name.find_last_not_of(" \t") + 1);
      if (name.empty()) continue;
      const auto [first, is_new] = line_of_.emplace(name + ".xml", line);
      if (!is_new) {
        fail_line(path, line, cat(escaped(name), " is in line ", first->second, ", too"));
      }
    }
    if (line_of_.empty()) throw Error(ErrorKind::kData, cat(path, ": lists no images"));
  }

  const std::string& folder() const { return folder_; }
  bool has(const std::string& xml) const { return !lines_ || line_of_.contains(xml); }

  // Throws when the list has a line without its file among `names`, which are in order.
  void check_against(const std::vector<std::string>& names) const {
    if (!lines_) return;
    for (std::size_t line = 1; line <= lines_->size(); ++line) {
      const std::string& name = (*lines_)[line - 1];
      if (name.empty() || std::binary_search(names.begin(), names.end(), name + ".xml")) continue;
      const std::string last = name.substr(name.find_last_of(" \t") + 1);
      if (last != name && (last == "-1" || last == "0" || last == "1")) {
        throw Error(ErrorKind::kData,
                    cat(path_, ": line ", line, ": got \"", escaped(name), "\", want a name alone"),
                    "this is the list of one class; give --annotations ImageSets/Main/train.txt");
      }
      fail_line(path_, line, cat(escaped(name), ".xml is not in ", folder_));
    }
  }

 private:
  std::string path_, folder_;
  std::optional<std::vector<std::string>> lines_{};  // of the list, where there is one
  std::map<std::string, std::size_t> line_of_{};     // XML file -> line
};

}  // namespace

Instances read_voc(const AnnotationSource& source, AnnotationFiles& files) {
  Instances out;
  const VocSelection selection(source.path, files);
  std::vector<std::string> xml_names = files_below(selection.folder());
  std::erase_if(xml_names, [](const std::string& name) { return !name.ends_with(".xml"); });
  selection.check_against(xml_names);
  std::set<std::string> class_names;
  std::vector<NamedBox> boxes;
  std::map<std::string, std::string> file_of;  // picture -> XML file
  std::int64_t difficult_count = 0;
  for (const std::string& name : xml_names) {
    const std::string path = cat(selection.folder(), "/", name);
    const VocFile file(path, files.read(path, name, EncodingIn::kXml));
    // Of all files, so that training and validation lists get the same ids.
    for (const pugi::xml_node object : file.root().children("object")) {
      class_names.insert(file.text(object, "name"));
    }
    if (!selection.has(name)) continue;
    const auto image_id = static_cast<std::int64_t>(out.images.size()) + 1;
    out.images.push_back({.id = image_id,
                          .file_name = file.text(file.root(), "filename"),
                          .width = side_of(file, "width"),
                          .height = side_of(file, "height")});
    const std::string& picture = out.images.back().file_name;
    const auto [first, is_new] = file_of.emplace(picture, name);
    if (!is_new) {
      fail_line(file.path(), file.line_of(file.root().child("filename")),
                cat("is about ", escaped(picture), ", as ", escaped(first->second), " is"));
    }
    for (const pugi::xml_node object : file.root().children("object")) {
      boxes.push_back({.name = file.text(object, "name"),
                       .box = box_of(file, object),
                       .path = file.path(),
                       .line = file.line_of(object),
                       .image_id = image_id});
      difficult_count += object.child("difficult").text().as_int() != 0 ? 1 : 0;
    }
  }
  if (out.images.empty()) {
    throw Error(ErrorKind::kData, cat(source.path, ": has no XML files"),
                "give --annotations the folder Annotations of the data set, or a list of its "
                "ImageSets/Main");
  }

  std::optional<ClassIds> given;
  std::map<std::string, std::int64_t> found;
  if (!source.classes.empty()) {
    given.emplace(source.classes, files);
    out.categories = given->categories();
  } else {
    for (const std::string& name : class_names) {
      found[name] = static_cast<std::int64_t>(out.categories.size()) + 1;
      out.categories.push_back({.id = found[name], .name = name});
    }
  }
  for (const NamedBox& one : boxes) {
    out.annotations.push_back(
        {.id = static_cast<std::int64_t>(out.annotations.size()) + 1,
         .image_id = one.image_id,
         .category_id = given ? given->id_of(one.name, one.path, one.line) : found.at(one.name),
         .bbox = one.box,
         .area = one.box[2] * one.box[3]});
  }
  if (difficult_count > 0) {
    log_info(source.path, ": ", difficult_count, " boxes are marked difficult; they are kept");
  }
  read_picture_sizes(source, out);
  return out;
}

}  // namespace retina
