// Loose pictures: every JPEG, PNG, TIFF and WebP below a folder, whatever their names; what cannot
// be used is left out with a reason. As in coco-pack, EXIF orientation is ignored and a truncated
// picture refused.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/image_folder.h"
#include "shared/data/picture_source.h"

namespace retina {

// Files below a folder by their names in it: "a/b.png"; any bytes but zero.
struct LeftOutFile {
  std::string name{};
  FileProblem problem{};  // kinds: ImageFolder's, "unreadable", "format" (no picture), "damaged"
};
struct FolderListing {
  std::vector<std::string> names{};     // by their bytes, ascending
  std::vector<LeftOutFile> left_out{};  // folders that may not be read
};

// All files below `folder` at any depth but what is_dropping() and what is in such folders. Links
// to files and folders are followed, each folder is entered once, `without` (where the results go)
// never. `on_folder` is called for each folder. Throws kNoInput when there is no such folder, or no
// permission, kConfig when `without` is the folder itself, kIo.
FolderListing list_files(const std::string& folder, const std::string& without,
                         const std::function<void()>& on_folder = {});

// What a picture's first bytes say.
struct LoosePicture {
  std::string name{};
  int width = 0, height = 0;                     // as stored
  int orientation = 1;                           // see orientation.h
  std::uint64_t size_bytes = 0, start_xxh3 = 0;  // of the file; of its first 64 KiB
};
struct LookedAt {
  LoosePicture picture{};
  std::optional<FileProblem> problem{};
};
// Throws kIo.
LookedAt look_at(const ImageFolder& folder, const std::string& name, JpegDecoder& decoder);

// Image ids are 1, 2, ... in the order of `pictures`.
class PictureFolder : public PictureSource {
 public:
  PictureFolder(std::string folder, const std::vector<LoosePicture>& pictures,
                Categories categories);

  const std::vector<IndexEntry>& index() const override { return index_; }
  const Categories& categories() const override { return categories_; }
  // Throws kIo when the folder or its mount is gone.
  std::optional<FileProblem> decode(std::size_t place, JpegDecoder& decoder,
                                    Image& out) const override;

 private:
  ImageFolder folder_;
  Categories categories_;
  std::vector<IndexEntry> index_;
};

}  // namespace retina
