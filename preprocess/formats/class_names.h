// The classes that a source names: lists of them, their category ids, names that look alike.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "preprocess/formats/annotation_files.h"

namespace retina {

// A class for each name, with the ids 1, 2, ...
Categories numbered_categories(const std::vector<std::string>& names);

// The names of a file with a class name a line, without white space around them. Throws kData where
// a line between is empty, a name is there twice, or there is none.
std::vector<std::string> class_lines(const std::string& path, const std::vector<TextLine>& lines);

// The category ids of the class names that boxes have.
class ClassIds {
 public:
  // Without source.classes those are 1, 2, ... for `names`. Else that file's: lines of "class,id",
  // or of a name or Open Images' "/m/011k07,Tortoise", whose ids are 1, 2, ...; throws kData.
  ClassIds(const AnnotationSource& source, const std::set<std::string>& names,
           AnnotationFiles& files);

  // The id of a name, which is said `at` a line; throws as fail_line() where the file has it not.
  std::int64_t id_of(const std::string& name, const FileLine& at) const;
  // By the names that annotations have.
  Categories categories() const;

 private:
  bool read_names(const std::vector<TextLine>& lines);
  bool read_descriptions(const std::vector<TextLine>& lines);
  void read_ids(const std::vector<TextLine>& lines);

  std::string path_;
  std::map<std::string, std::int64_t> ids_{};    // by the name that annotations have
  std::map<std::int64_t, std::string> shown_{};  // other names, shown to people
};

// The classes of a set's boxes, whose ids show when all are read.
class BoxClasses {
 public:
  // A name that gets an id though no box may have it.
  void know(const std::string& name) { names_.insert(name); }
  // The name of the next box's class, said `at` a line.
  void add(const std::string& name, const FileLine& at);
  // Sets the categories and those of the boxes. Throws as ClassIds.
  void set_ids(const AnnotationSource& source, AnnotationFiles& files, Instances& instances) const;

 private:
  struct Named {
    std::string name{}, path{};
    std::size_t line = 0;
  };
  std::set<std::string> names_{};
  std::vector<Named> named_{};  // by box
};

// Logs how many boxes are marked difficult, if any.
void report_difficult(const std::string& path, std::int64_t count);

// Warns of class names that look alike: slips of the pen split a class in two. `path` begins the
// message, which has the number of `counted` ("boxes", "images") by category id.
void warn_of_alike_classes(const std::string& path, const Categories& categories,
                           std::map<std::int64_t, std::int64_t> count_of, const char* counted);

}  // namespace retina
