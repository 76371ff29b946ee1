// What the readers of annotation_source.cpp have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "preprocess/formats/annotation_source.h"
#include "shared/base/hash.h"

namespace retina {

// Reads the files of a source and remembers what they hold.
class AnnotationFiles {
 public:
  // `path` and, among the files of the source, `name`.
  std::string read(const std::string& path, const std::string& name);
  // Without their ends, be those "\n" or "\r\n".
  std::vector<std::string> read_lines(const std::string& path, const std::string& name);

  std::uint64_t size_bytes() const { return size_bytes_; }
  std::uint64_t xxh3() const { return hasher_.digest(); }

 private:
  Hasher hasher_;
  std::uint64_t size_bytes_ = 0;
};

Instances read_voc(const AnnotationSource& source, AnnotationFiles& files);
Instances read_csv(const AnnotationSource& source, AnnotationFiles& files);
Instances read_yolo(const AnnotationSource& source, AnnotationFiles& files);

// "FILE: line 17: what is wrong".
[[noreturn]] void fail_line(const std::string& path, std::size_t line, const std::string& problem);

// The whole of `text` as a finite number; else throws as fail_line does, naming the `field`.
double parse_number(std::string_view text, const char* field, const std::string& path,
                    std::size_t line);

// A line's fields, where commas are not inside quotes; "" inside quotes is a quote (RFC 4180).
std::vector<std::string> split_csv(std::string_view line);

// Class names with their category ids, from a file of "class,id".
class ClassIds {
 public:
  ClassIds(const std::string& path, AnnotationFiles& files);
  std::int64_t id_of(const std::string& name, const std::string& file, std::size_t line) const;
  Categories categories() const;

 private:
  std::string path_;
  std::map<std::string, std::int64_t> ids_{};
};

// Below `folder`, by name; those that may not be entered are an error.
std::vector<std::string> files_below(const std::string& folder);

// Fills in the sizes of images that have none yet, from the pictures.
void read_picture_sizes(const AnnotationSource& source, Instances& instances);

}  // namespace retina
