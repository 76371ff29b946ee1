// The readers of annotation_source.cpp, one for each format, and their access to a source's files.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "preprocess/formats/annotation_source.h"
#include "shared/base/hash.h"
#include "shared/base/text_encoding.h"

namespace retina {

struct TextLine {
  std::string text{};
  std::size_t number = 0;  // in its file, from 1
};

// Reads the files of a source and hashes what they hold, which is part of a packed set's identity:
// what is read, and in which order, must not change.
class AnnotationFiles {
 public:
  // A text at `path` and, among the files of the source, `name`; as decode_text() has it.
  std::string read(const std::string& path, const std::string& name, EncodingIn where);
  // The lines that are not blank, in UTF-8, without their ends, be those "\n", "\r\n" or "\r".
  // Throws as require_utf8().
  std::vector<TextLine> read_lines(const std::string& path, const std::string& name);
  // Hashes a file that is read elsewhere.
  void add_file(const std::string& path, const std::string& name);
  // Hashes what is known without a file.
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
Instances read_xview(const AnnotationSource& source, AnnotationFiles& files);
Instances read_dota(const AnnotationSource& source, AnnotationFiles& files);
ReadAnnotations read_folders(const AnnotationSource& source, AnnotationFiles& files);
ReadAnnotations read_cifar10(const AnnotationSource& source, AnnotationFiles& files);

// A place in a file, for messages.
struct FileLine {
  const std::string& path;
  std::size_t number = 0;  // from 1; 0: the path says it all
};

// Throws kData: "FILE: line 17: PROBLEM".
[[noreturn]] void fail_line(const FileLine& at, const std::string& problem);

// Throws as fail_line(), "WHAT already appears on line 3", where the text came before; `lines`
// keeps where.
using FirstLines = std::map<std::string, std::size_t>;
void require_first(FirstLines& lines, const std::string& text, const FileLine& at,
                   const std::string& what);

// All of `text` but white space at its ends as a number; nothing where it is none.
std::optional<double> number_of(std::string_view text);
// A finite one; else throws as fail_line() does, naming the `field`.
double parse_number(std::string_view text, const char* field, const FileLine& at);

// A whole one from `least` to 1e9; else throws so, too.
std::int64_t parse_whole(std::string_view text, const char* field, const FileLine& at,
                         std::int64_t least);

// A line's fields, where separators are not inside quotes; "" inside quotes is a quote (RFC 4180).
std::vector<std::string> split_csv(std::string_view line, char separator = ',');

// Returns what stands between white space.
std::vector<std::string> words_of(std::string_view text);

using Box = std::array<double, 4>;  // x, y, width, height
// Returns the smallest box around points x, y, x, y, ...
Box box_around(const std::vector<double>& points);

// Both give what they add the next id of 1, 2, ...; a box is one of the last image.
void add_image(Instances& to, ImageInfo image);
Annotation& add_box(Instances& to, const Box& box, std::int64_t category_id = 0);

// Returns the names that are no keys of `known`.
template <class Map>
std::vector<std::string> names_without(const std::vector<std::string>& names, const Map& known) {
  std::vector<std::string> left;
  std::copy_if(names.begin(), names.end(), std::back_inserter(left),
               [&](const std::string& name) { return !known.contains(name); });
  return left;
}

// "a, b, c, ..." of many names, escaped.
std::string first_names(const std::vector<std::string>& names);
// "a 12, b 3, ..." of names with their counts.
std::string first_counts(const std::map<std::string, std::int64_t>& counts);

}  // namespace retina
