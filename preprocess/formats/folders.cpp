// Images with one class each: a folder for each class, or a file that tells their classes.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "preprocess/formats/class_names.h"
#include "preprocess/formats/image_names.h"
#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/exact_number.h"
#include "shared/base/file.h"
#include "shared/base/file_spelling.h"
#include "shared/base/image_folder.h"
#include "shared/base/log.h"
#include "shared/base/printable.h"
#include "shared/coco/class_text.h"

namespace retina {
namespace {

namespace fs = std::filesystem;

struct ClassList {
  std::string source{};  // the file or folder that lists them, for messages
  std::vector<std::string> names{};
  std::map<std::string, int> label_of{};

  ClassList(std::string from, std::vector<std::string> all)
      : source(std::move(from)), names(std::move(all)) {
    for (std::size_t label = 0; label < names.size(); ++label) {
      label_of.emplace(names[label], static_cast<int>(label));
    }
  }
};

ClassList read_class_list(const std::string& path, AnnotationFiles& files) {
  std::vector<std::string> names;
  FirstLines known;
  for (const auto& [text, number] : files.read_lines(path, "classes")) {
    names.push_back(class_of_text(text));
    require_first(known, names.back(), {path, number},
                  cat("class \"", escaped(names.back()), "\""));
  }
  if (names.empty()) {
    throw Error(ErrorKind::kData, cat(path, ": has no classes (want a class name a line)"));
  }
  return {path, std::move(names)};
}

std::vector<std::string> sub_folders(const std::string& root) {
  std::set<std::string> names;
  std::error_code code;
  for (fs::directory_iterator entry(root, code), end; entry != end; entry.increment(code)) {
    std::error_code ignored;  // a link to nowhere
    std::string name = entry->path().filename().string();
    if (!is_clutter(name) && entry->is_directory(ignored)) names.insert(std::move(name));
  }
  if (code) throw read_error(root, code.value());
  return {names.begin(), names.end()};
}

// Returns true for the suffixes of images that --convert takes.
bool is_convertible(const std::string& suffix) {
  return suffix == ".png" || suffix == ".webp" || suffix == ".tif" || suffix == ".tiff";
}

// Lists the images below ROOT by their names; warns of other files.
std::vector<std::string> list_image_names(const AnnotationSource& source) {
  std::vector<std::string> image_names;
  std::map<std::string, std::int64_t> others;  // by how they end
  std::int64_t other_count = 0;
  bool could_convert = false;
  for (std::string& name : files_below(source.images)) {
    const std::string suffix = lower_suffix(name);
    if (is_jpeg_name(name) || (source.convert && is_convertible(suffix))) {
      image_names.push_back(std::move(name));
      continue;
    }
    ++others[suffix];
    ++other_count;
    could_convert |= is_convertible(suffix);
  }
  if (other_count == 0) return image_names;
  std::vector<std::string> kinds;
  for (const auto& [suffix, count] : others) {
    kinds.push_back(cat(suffix.empty() ? "without an ending" : suffix, " ", count));
  }
  if (image_names.empty() && could_convert) {
    throw Error(ErrorKind::kData,
                cat(source.images, ": has no JPEGs (got ", first_names(kinds), ")"),
                "--convert packs PNG, TIFF and WebP images");
  }
  log_warning(source.images, ": ", counted(other_count, "file is", "files are"),
              " skipped, not named as ", source.convert ? "images" : "JPEGs", " (",
              first_names(kinds), ")",
              could_convert ? "; --convert takes .png, .tif, .tiff and .webp, too" : "");
  return image_names;
}

void warn_of_skipped(const std::string& root, const std::vector<std::string>& names,
                     const std::string& why) {
  if (names.empty()) return;
  log_warning(root, ": ", counted(names.size(), "image is", "images are"), " skipped, ", why, " (",
              first_names(names), ")");
}

struct Labelled {
  std::string name{};  // of the image, below ROOT
  int label = 0;
};

// ROOT/class/...
std::vector<Labelled> by_folder(const AnnotationSource& source, const ClassList& classes) {
  std::vector<Labelled> labelled;
  std::vector<std::string> loose;
  for (std::string& name : list_image_names(source)) {
    const std::size_t slash = name.find('/');
    if (slash == std::string::npos) {
      loose.push_back(std::move(name));
      continue;
    }
    const auto label = classes.label_of.find(name.substr(0, slash));
    // A folder that has just been made.
    if (label == classes.label_of.end()) continue;
    labelled.push_back({.name = std::move(name), .label = label->second});
  }
  warn_of_skipped(source.images, loose, "outside every class folder");
  if (labelled.empty()) {
    throw Error(
        ErrorKind::kData,
        cat(source.images, ": has no images in its class folders (want ",
            source.convert ? ".jpg, .jpeg, .png, .tif, .tiff or .webp" : ".jpg or .jpeg", ")"),
        "check --images");
  }
  return labelled;
}

void report_classes(const std::string& root, const std::vector<std::string>& folders) {
  log_info(root, ": ",
           folders.size() == 1 ? "its folder is the class "
                               : cat("its folders are the ", folders.size(), " classes "),
           first_names(folders));
  if (!std::all_of(folders.begin(), folders.end(), is_split_name)) return;
  log_warning(root,
              ": the folder names look like splits, not classes. If each split has one folder per ",
              "class, give --images ", root, "/", escaped(folders.front()),
              "; for bounding boxes, give --format coco, voc, csv, yolo, xview or dota");
}

// The classes of ROOT's folders. A folder that `classes` does not list would be lost.
ClassList folder_classes(const AnnotationSource& source, AnnotationFiles& files) {
  std::vector<std::string> folders = sub_folders(source.images);
  if (folders.empty()) {
    throw Error(ErrorKind::kData,
                cat(source.images, ": has no folders (want one of images for each class)"),
                "where all images are in one folder, give their classes by --annotations");
  }
  if (source.classes.empty()) {
    for (const std::string& folder : folders) {
      if (is_utf8(folder)) continue;
      throw Error(
          ErrorKind::kData,
          cat(source.images, "/", escaped(folder), ": the class folder's name is not UTF-8"),
          "rename the folder, or all of them with convmv -f ITS_ENCODING -t UTF-8");
    }
    report_classes(source.images, folders);
    return {source.images, std::move(folders)};
  }
  ClassList classes = read_class_list(source.classes, files);
  for (const std::string& folder : folders) {
    if (classes.label_of.contains(folder)) continue;
    throw Error(ErrorKind::kData,
                cat(source.images, "/", escaped(folder), ": is not a class of ", source.classes),
                "add its name as a line there, or move the folder away");
  }
  return classes;
}

// ILSVRC's ground truth counts classes by its own order, in which dogs come first; a list by name
// would give every image a wrong class.
void warn_of_sorted_ids(const ClassList& classes, const std::string& truth) {
  const bool is_imagenet = std::all_of(classes.names.begin(), classes.names.end(), is_wordnet_id);
  if (!is_imagenet || classes.names.size() < 2 ||
      !std::is_sorted(classes.names.begin(), classes.names.end())) {
    return;
  }
  log_warning(classes.source,
              ": lists WordNet ids in ascending order, but ILSVRC's own ground truth numbers ",
              "classes in the order of map_clsloc.txt; if ", truth,
              " is that ground truth, every label will be wrong");
}

// A class id a line for the images in the order of their names.
std::vector<Labelled> by_ids(const AnnotationSource& source, const ClassList& classes,
                             const std::vector<TextLine>& lines) {
  warn_of_sorted_ids(classes, source.path);
  std::vector<int> labels;
  for (const auto& [line, number] : lines) {
    const std::string_view text = trimmed(line);
    const auto id = exact_number<std::uint64_t>(text);
    if (!id || *id < 1 || *id > classes.names.size()) {
      fail_line({source.path, number}, cat("class id: got ", escaped(text), ", want 1..",
                                           classes.names.size(), ", a class of ", classes.source));
    }
    labels.push_back(static_cast<int>(*id) - 1);
  }
  std::vector<std::string> image_names = list_image_names(source);
  if (labels.size() != image_names.size()) {
    throw Error(ErrorKind::kData,
                cat(source.path, ": does not have exactly one class id per image (got ",
                    labels.size(), " ids, ", image_names.size(), " images in ", source.images, ")"),
                "ids are assigned to images in file-name order, so none may be missing");
  }
  std::vector<Labelled> labelled;
  for (std::size_t i = 0; i < image_names.size(); ++i) {
    labelled.push_back({.name = std::move(image_names[i]), .label = labels[i]});
  }
  return labelled;
}

// Lines of "FILE NAME,CLASS" by image. One that does not exist stays in the list: packing
// quarantines it.
struct TruthRow {
  std::string class_name{};
  std::size_t line = 0;
};
using NamedTruth = std::map<std::string, TruthRow>;

NamedTruth read_named_truth(const AnnotationSource& source, const std::vector<TextLine>& lines,
                            const ImageNames& image_names) {
  const std::string& path = source.path;
  const std::string folder_name = own_name_of(source.images);
  const auto find = [&](const std::string& name) {
    const std::string* image = image_names.find(name);
    if (image != nullptr) return image;
    for (const std::string& other : other_spellings(name, folder_name)) {
      if (other.starts_with(name)) continue;  // with an ending, which find() tries
      if ((image = image_names.find(other)) != nullptr) break;
    }
    return image;
  };
  NamedTruth truth;
  for (const auto& [text, number] : lines) {
    const FileLine at{path, number};
    const std::vector<std::string> fields = split_csv(text);
    if (fields.size() != 2 || trimmed(fields[0]).empty() || trimmed(fields[1]).empty()) {
      fail_line(at, cat("got \"", escaped(text),
                        "\", want FILE NAME,CLASS, or a class id on every line"));
    }
    const std::string name(trimmed(fields[0]));
    const std::string* const image = find(name);
    if (image == nullptr && find(std::string(trimmed(fields[1]))) != nullptr) {
      fail_line(at,
                cat(escaped(text), " has the file name behind the class, want FILE NAME,CLASS"));
    }
    if (number == 1 && image == nullptr && lower_suffix(name).empty()) {
      log_info(path, ": line 1 is taken as the columns' names: ", escaped(text));
      continue;
    }
    const auto [first, is_new] =
        truth.emplace(image == nullptr ? name : *image,
                      TruthRow{.class_name = class_of_text(fields[1]), .line = number});
    if (!is_new) {
      fail_line(at, cat(escaped(name), " already appears on line ", first->second.line));
    }
  }
  return truth;
}

ClassList classes_of(const AnnotationSource& source, const NamedTruth& truth,
                     AnnotationFiles& files) {
  if (!source.classes.empty()) return read_class_list(source.classes, files);
  std::set<std::string> names;
  for (const auto& [image, row] : truth) names.insert(row.class_name);
  return {source.path, {names.begin(), names.end()}};
}

std::vector<Labelled> by_names(const AnnotationSource& source, const ClassList& classes,
                               const NamedTruth& truth, const ImageNames& image_names) {
  std::vector<Labelled> labelled;
  for (const auto& [image, row] : truth) {
    const auto label = classes.label_of.find(row.class_name);
    if (label == classes.label_of.end()) {
      fail_line({source.path, row.line},
                cat("class \"", escaped(row.class_name), "\" is not in ", classes.source));
    }
    labelled.push_back({.name = image, .label = label->second});
  }
  warn_of_skipped(source.images, names_without(image_names.all(), truth),
                  cat("not in ", source.path));
  return labelled;
}

// The set's identity is what has been understood, whatever the files look like.
ReadAnnotations to_annotations(const ClassList& classes, const std::vector<Labelled>& labelled,
                               const std::string& root, AnnotationFiles& files) {
  ReadAnnotations out;
  out.instances.categories = numbered_categories(classes.names);
  for (const std::string& name : classes.names) files.add("class", name);
  std::set<std::string> with_images;
  for (const auto& [name, label] : labelled) {
    const std::string& class_name = classes.names[static_cast<std::size_t>(label)];
    files.add(name, class_name);
    with_images.insert(class_name);
    add_image(out.instances, {.file_name = name});
    out.image_labels.push_back(label);
  }
  const std::vector<std::string> empty = names_without(classes.names, with_images);
  if (!empty.empty()) {
    log_warning(root, ": ", counted(empty.size(), "class has", "classes have"), " no images (",
                first_names(empty), ")");
  }
  return out;
}

}  // namespace

ReadAnnotations read_folders(const AnnotationSource& source, AnnotationFiles& files) {
  if (source.path.empty()) {
    const ClassList classes = folder_classes(source, files);
    return to_annotations(classes, by_folder(source, classes), source.images, files);
  }
  const std::vector<TextLine> lines = files.read_lines(source.path, "annotations");
  const auto is_id = [](const TextLine& line) {
    return trimmed(line.text).find_first_not_of("0123456789") == std::string_view::npos;
  };
  if (!lines.empty() && std::all_of(lines.begin(), lines.end(), is_id)) {
    if (source.classes.empty()) {
      throw Error(ErrorKind::kConfig, cat(source.path, ": lists class ids, which needs --classes"),
                  "give a file with a class name a line, in the order of the ids");
    }
    const ClassList classes = read_class_list(source.classes, files);
    return to_annotations(classes, by_ids(source, classes, lines), source.images, files);
  }
  const ImageNames image_names(list_image_names(source));
  const NamedTruth truth = read_named_truth(source, lines, image_names);
  const ClassList classes = classes_of(source, truth, files);
  return to_annotations(classes, by_names(source, classes, truth, image_names), source.images,
                        files);
}

}  // namespace retina
