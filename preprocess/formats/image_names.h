// The image files that a source is about: listing them, finding them by what annotations call
// them, and what only the images say.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "preprocess/formats/annotation_source.h"

namespace retina {

// Returns the name's extension in lower case: ".jpeg"; empty for a name without one.
std::string lower_suffix(const std::string& name);

// Returns true for names that end as JPEGs do: .jpg, .jpeg, .jpe, .jfif, .jif.
bool is_jpeg_name(const std::string& name);

// Returns true for names that end as images do, whatever coco-pack can read of them.
bool is_image_name(const std::string& name);

// Returns true if a folder is called as the training, validation or test part of a set.
bool is_split_name(const std::string& folder);

// Returns the files below `folder` by name, those with a lower_suffix() alone where one is given;
// folders that may not be entered are an error.
std::vector<std::string> files_below(const std::string& folder, const std::string& suffix = "");

// Returns those that are images by their names.
std::vector<std::string> images_of(std::vector<std::string> names);

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

// Completes names that lack an image's ending, as some tools write them.
class NameCompleter {
 public:
  explicit NameCompleter(std::string folder) : folder_(std::move(folder)) {}
  // Returns the name of the folder's only image that is called so; where there is none, the name.
  std::string completed(const std::string& name);

 private:
  std::string folder_;
  std::optional<ImageNames> listed_{};
};

// Fills in the sizes of images that have none yet, from the images. Warns of images with boxes
// that their EXIF data turn where the source uses them as stored: nothing states which way their
// boxes are meant.
void read_image_sizes(const AnnotationSource& source, Instances& instances);

// From shares of the sides to pixels: boxes, and their areas. Image ids are 1, 2, ... in order.
void scale_shares(Instances& instances);

}  // namespace retina
