// COCO's instances JSON ("images", "annotations", "categories"): the first thing that coco-pack
// and retina-eval read. Memory stays near the boxes' however long the polygons are.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shared/coco/categories.h"
#include "shared/coco/entry_reader.h"

namespace retina {

struct ImageInfo {
  std::int64_t id = 0;
  std::string file_name{};
  int width = 0, height = 0;  // pixels, > 0
};

struct Annotation {
  std::int64_t id = 0, image_id = 0, category_id = 0;
  std::array<double, 4> bbox{};  // x, y, width, height in pixels: exactly the file's f64
  double area = 0;               // the file's, or width * height if it has none
  bool iscrowd = false;          // false if the file does not say
};

// Content of an instances file, in the file's order.
struct Instances {
  std::vector<ImageInfo> images{};
  std::vector<Annotation> annotations{};
  Categories categories{};
  // Number of annotations with CVAT's "rotation" (among their attributes) that is not 0.
  std::int64_t rotated_count = 0;
};

// Receives the annotations of a file one by one, in its order, for callers that hold them in a form
// of their own: a file may have tens of millions.
class AnnotationList {
 public:
  virtual ~AnnotationList() = default;

  // Announces that there will be no more than `count`.
  virtual void reserve(std::size_t count) = 0;
  // Adds one; `image` is the place of its image in Instances::images.
  virtual void add(const Annotation& annotation, std::size_t image) = 0;
  virtual std::size_t size() const = 0;
  // Returns annotation number i; its image is known by image(i) alone.
  virtual Annotation at(std::size_t i) const = 0;
  virtual std::size_t image(std::size_t i) const = 0;
};

// Appends them to `all`, as they come.
class AnnotationVector : public AnnotationList {
 public:
  explicit AnnotationVector(std::vector<Annotation>& all) : all_(all) {}
  void reserve(std::size_t count) override {
    all_.reserve(count);
    images_.reserve(count);
  }
  void add(const Annotation& annotation, std::size_t image) override {
    all_.push_back(annotation);
    images_.push_back(static_cast<std::uint32_t>(image));
  }
  std::size_t size() const override { return all_.size(); }
  Annotation at(std::size_t i) const override { return all_[i]; }
  std::size_t image(std::size_t i) const override { return images_[i]; }

 private:
  std::vector<Annotation>& all_;
  std::vector<std::uint32_t> images_{};
};

// Reads and checks the file at `path`. Keys that are not needed (segmentation, licenses, ...) are
// skipped at any depth. Degenerate boxes (no width or height) are kept: the caller deals with them.
// Throws kNoInput / kIo (reading) and kData, naming the file and the place: not JSON (line and
// column), a missing key or one that comes twice, a wrong type, a name that is not UTF-8 or, of an
// image, empty or with a NUL in it, duplicate ids, an annotation whose image or category is
// missing, a box that is not four finite numbers, an image without size, no image or category.
Instances read_instances(const std::string& path, const ReadingPieces& pieces = {});

// Reads the file with its annotations in `annotations`; those of the result are empty.
Instances read_instances_into(AnnotationList& annotations, const std::string& path,
                              const ReadingPieces& pieces = {});

// Reads the categories of an instances file, or of one with nothing else: an object with the list,
// or the list itself. Throws as read_instances().
Categories read_categories(const std::string& path);

// Returns everything as COCO JSON, f64 exact: read_instances() gives the same back. `description`,
// unless empty, comes first, in COCO's "info".
std::string instances_to_json(const Instances& instances, std::string_view description = "");

}  // namespace retina
