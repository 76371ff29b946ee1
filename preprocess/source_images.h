// The images that coco-pack reads, by their names in the annotations: each a file of its own, or
// (CIFAR-10) a part of a larger one. The only code that knows which. Also what one that is missing
// may be called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "preprocess/formats/annotation_source.h"
#include "shared/base/image_folder.h"
#include "shared/image/resize.h"
#include "shared/shard/quarantine.h"

namespace retina {

// Returns when the file was changed last, in ns since 1970; 0 when that cannot be determined.
std::int64_t modified_ns(const std::string& path);

// An image as it was found.
struct SourceImage {
  std::string bytes{};  // a JPEG's or another format's, or [height, width, 3] u8 RGB
  std::optional<ImageSize> raw_size{};  // size of raw RGB; unset: `bytes` are encoded
  std::string found_as{};               // the file's name where it is not that of the annotations
};

// Location and kind of a data set's images.
struct ImageSource {
  std::string folder{};  // that their names are relative to
  AnnotationFormat format = AnnotationFormat::kCoco;
  std::uint64_t max_file_bytes = kMaxImageFileBytes;  // a larger file is a problem, "too-large"
};

class SourceImages {
 public:
  explicit SourceImages(const ImageSource& source);

  // Reads an image. A problem where ImageFolder::find has one, and for a file that ends before the
  // image ("damaged"). Throws as ImageFolder::find, and kNoInput when the file may not be read.
  std::optional<FileProblem> read(const std::string& name, SourceImage& out) const;

  // Finds the image's file without reading it. A problem where ImageFolder::find has one.
  std::optional<FileProblem> find(const std::string& name, FoundFile& out) const;

  // Returns the size of SourceImage::bytes; nothing where no file holds the image, or that cannot
  // be determined.
  std::optional<std::uint64_t> size_bytes(const std::string& name) const;

  // ImageFolder's.
  Error gone() const { return folder_.gone(); }

 private:
  // The place of an image; all of the file without an offset.
  struct Place {
    FoundFile file{};
    std::optional<std::uint64_t> offset_bytes{};
  };
  // As ImageFolder::find.
  std::optional<FileProblem> find_place(const std::string& name, Place& out) const;
  std::optional<FileProblem> read_part_of(const Place& place, SourceImage& out) const;

  ImageFolder folder_;
  AnnotationFormat format_;
};

// Names in the reason of each image of kind "missing" or "name" the file that looks like it: in
// other letters' case, with another ending, in another folder. The hint proposes another --images
// where that has nearly all of the `image_count` images of the annotations that are anywhere. The
// folder is listed once, for ten seconds at most: some mounts take half an hour. Nothing changes
// where the listing finds none, or fails.
void name_look_alikes(std::vector<QuarantinedImage>& images, const std::string& folder,
                      std::size_t image_count);

}  // namespace retina
