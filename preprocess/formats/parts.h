// What the readers of annotation_source.cpp have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "preprocess/formats/annotation_source.h"
#include "shared/base/hash.h"
#include "shared/base/text_encoding.h"

namespace retina {

// Reads the files of a source and remembers what they hold.
class AnnotationFiles {
 public:
  // A text at `path` and, among the files of the source, `name`; as decode_text() has it.
  std::string read(const std::string& path, const std::string& name, EncodingIn where);
  // In UTF-8, without their ends, be those "\n" or "\r\n". Throws as require_utf8().
  std::vector<std::string> read_lines(const std::string& path, const std::string& name);
  // Gives the file to `take` in pieces of `piece_bytes`, the last one maybe shorter.
  void read_pieces(const std::string& path, const std::string& name, std::size_t piece_bytes,
                   const std::function<void(std::string_view)>& take);
  // What is known without a file.
  void add(const std::string& name, std::string_view text);

  std::uint64_t size_bytes() const { return size_bytes_; }
  std::uint64_t xxh3() const { return hasher_.digest(); }

 private:
  Hasher hasher_;
  std::uint64_t size_bytes_ = 0;
};

Instances read_voc(const AnnotationSource& source, AnnotationFiles& files);
Instances read_csv(const AnnotationSource& source, AnnotationFiles& files);
Instances read_yolo(const AnnotationSource& source, AnnotationFiles& files);
ReadAnnotations read_folders(const AnnotationSource& source, AnnotationFiles& files);
ReadAnnotations read_cifar10(const AnnotationSource& source, AnnotationFiles& files);

// "FILE: line 17: what is wrong".
[[noreturn]] void fail_line(const std::string& path, std::size_t line, const std::string& problem);

// The whole of `text` as a finite number; else throws as fail_line does, naming the `field`.
double parse_number(std::string_view text, const char* field, const std::string& path,
                    std::size_t line);

// A line's fields, where separators are not inside quotes; "" inside quotes is a quote (RFC 4180).
std::vector<std::string> split_csv(std::string_view line, char separator = ',');

// The lines of a file with a class name a line: without outer spaces and the empty lines at the
// end. Throws where a line between is empty, a name is there twice, or there is none.
std::vector<std::string> class_lines(const std::string& path, std::vector<std::string> lines);

// Class names with their category ids, from a file of "class,id", or of a name or Open Images'
// "/m/011k07,Tortoise" a line, whose ids are 1, 2, ...
class ClassIds {
 public:
  ClassIds(const std::string& path, AnnotationFiles& files);
  std::int64_t id_of(const std::string& name, const std::string& file, std::size_t line) const;
  Categories categories() const;

 private:
  bool take_descriptions(const std::vector<std::string>& lines);

  std::string path_;
  std::map<std::string, std::int64_t> ids_{};    // by the name that annotations have
  std::map<std::int64_t, std::string> shown_{};  // where people are shown another
};

// A class for each name, with the ids 1, 2, ...
Categories numbered_categories(const std::vector<std::string>& names);

// How the name ends, in lower case: ".jpeg"; empty where nothing follows a dot.
std::string lower_suffix(const std::string& name);

// Whether it ends as images do, whatever coco-pack can read of them.
bool is_image_name(const std::string& name);

// Whether a folder is called as the training, validation or test part of a set.
bool is_split_name(const std::string& folder);

// Without white space at either end, be it that of ASCII, U+00A0, U+3000 or a byte order mark.
std::string_view trimmed(std::string_view text);

// "a, b, c, ..." of many names, escaped.
std::string first_names(const std::vector<std::string>& names);

// Below `folder`, by name; those that may not be entered are an error.
std::vector<std::string> files_below(const std::string& folder);

// The images of a folder by the names that a file may use for them.
class ImageNames {
 public:
  // Names in the order of their bytes.
  explicit ImageNames(std::vector<std::string> images);

  // The image of that name, with or without its ending; nothing when there is none.
  const std::string* find(const std::string& name) const;
  const std::vector<std::string>& all() const { return images_; }

 private:
  std::vector<std::string> images_;
  std::map<std::string, std::size_t> by_stem_{};
};

// Fills in the sizes of images that have none yet, from the images. Warns of images with boxes
// that their EXIF data turn where the source takes them as stored: nothing states which way their
// boxes are meant.
void read_image_sizes(const AnnotationSource& source, Instances& instances);

// From shares of the sides to pixels: boxes, and their areas. Image ids are 1, 2, ... in order.
void scale_shares(Instances& instances);

}  // namespace retina
