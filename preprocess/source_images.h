// The images that coco-pack reads, by their names in the annotations: each a file of its own, or
// (CIFAR-10) a part of a larger one. The only code that knows which.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "preprocess/formats/annotation_source.h"
#include "preprocess/source_file.h"
#include "shared/base/image_folder.h"
#include "shared/image/resize.h"

namespace retina {

// An image as it was found.
struct SourceImage {
  std::string bytes{};  // a JPEG's or another format's, or [height, width, 3] u8 RGB
  std::optional<ImageSize> raw_size{};  // of RGB bytes; unset: they are an encoded image's
  std::string found_as{};               // the file's name where it is not that of the annotations
  SourceFile file{};                    // of `bytes`
};

class SourceImages {
 public:
  SourceImages(const std::string& folder, AnnotationFormat format);

  // Reads an image. A problem where ImageFolder::find has one, and for a file that ends before the
  // image ("damaged"). Throws as ImageFolder::find, and kNoInput when the file may not be read.
  std::optional<FileProblem> read(const std::string& name, SourceImage& out) const;

  // compare_file() for an image. Throws as it does.
  FileMatch compare(const std::string& name, const SourceFile& packed) const;

  // Whether there is a file that should hold the image.
  bool is_there(const std::string& name) const;
  // Of SourceImage::bytes; nothing when that cannot be determined.
  std::optional<std::uint64_t> size_bytes(const std::string& name) const;

  // ImageFolder's.
  void check_present() const { folder_.check_present(); }
  Error gone() const { return folder_.gone(); }

 private:
  // Where an image lies; all of the file without an offset.
  struct Place {
    FoundFile file{};
    std::optional<std::uint64_t> offset_bytes{};
  };
  // As ImageFolder::find.
  std::optional<FileProblem> find(const std::string& name, Place& out) const;
  std::optional<FileProblem> read_part_of(const Place& place, SourceImage& out) const;

  ImageFolder folder_;
  AnnotationFormat format_;
};

}  // namespace retina
