// Images as a user names them: files, folders and globs become a list of files, each with its name
// in results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/image_folder.h"
#include "shared/data/listed_folder.h"
#include "shared/data/sample_source.h"

namespace retina {

// A folder and the prefix for its files' names; the rest of a name is the one in `folder`.
struct ImageRoot {
  std::string folder{};
  std::string prefix{};
  std::string name_in_folder(std::string_view name) const {
    return std::string(name.substr(prefix.size()));
  }
};
struct ImageFile {
  std::string name{};
  std::size_t root = 0;  // place in ImageListing::roots
};
struct ImageListing {
  std::vector<ImageRoot> roots{};
  std::vector<ImageFile> files{};      // by name, ascending
  std::vector<SkippedFile> skipped{};  // folders that may not be read or hold no files
};

// Returns the files that `given` names. Files in one folder that is given alone have their names in
// it, all others the path that leads to them as it was given; a file that several of them lead to
// counts once, by the first. A value that names nothing is a pattern of glob(7) if it has one of
// *?[, and folders that it matches count as if they were given. Folders are listed as list_files()
// does; `output`, the folder of the results, is never entered, and a config error if it is given
// alone. `on_step` is called now and then. Throws kNoInput for a value that names nothing, or
// neither a file nor a folder, kConfig, kIo.
ImageListing list_images(const std::vector<std::string>& given, const std::string& output,
                         const std::function<void()>& on_step = {});

struct ImageFilesOptions {
  Normalisation normalisation{};
  std::uint64_t max_file_bytes = kMaxImageFileBytes;  // larger files are refused
  std::optional<Stretch> stretch{};                   // as in row_reader.h
};

// Samples without boxes of the usable images of a listing. Their ids are 1, 2, ... in the order of
// `images`.
class ImageFiles : public RowSource {
 public:
  // Takes each of `images` with its root's place in `roots`.
  ImageFiles(std::vector<ImageRoot> roots, const std::vector<FoundImage>& images,
             const ImageFilesOptions& options);

  const ImageIndex& index() const override { return index_; }
  // Loads a sample; one whose image does not decode has a problem and no pixels. Throws as decode()
  // does.
  Sample load(const BatchRequest& request, std::size_t place, JpegDecoder& decoder,
              PixelTarget pixels) const override;
  // Decodes image `place` of the index into `out`, whose storage is reused. Throws kIo if the
  // image's folder or its mount is gone.
  std::optional<FileProblem> decode(std::size_t place, JpegDecoder& decoder, Image& out) const;

  // Read by rows and as smaller copies, for images that are too large to be held. Unusable files
  // are problems with the same words as decode()'s. Throw kIo as that does, also while rows are
  // read.
  std::unique_ptr<ImageRows> open_rows(std::size_t place) const override;
  ImageSize whole_size(std::size_t place) const override;
  std::optional<FileProblem> decode_whole(std::size_t place, JpegDecoder& decoder,
                                          Image& out) const override;
  const Normalisation& normalisation() const override { return options_.normalisation; }
  // Decodes a large image as a copy whose longer side is at most `max_side_px`, or a part of it in
  // full size.
  std::optional<FileProblem> decode_reduced(std::size_t place, int max_side_px, Image& out) const;
  std::optional<FileProblem> decode_part(std::size_t place, const TileRect& part, Image& out) const;

 private:
  std::string name_in_folder(std::size_t place) const;
  DecodeRequest request_of(std::size_t place) const;

  std::vector<ImageRoot> roots_;
  std::vector<ImageFolder> folders_{};  // indexed by root
  std::vector<std::size_t> root_of_{};  // indexed by image
  ImageFilesOptions options_;
  ImageIndex index_{};
};

}  // namespace retina
