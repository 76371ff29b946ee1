// Every JPEG, PNG, TIFF and WebP below a folder, whatever their names; unusable files are left out
// with a reason. As in coco-pack, EXIF orientation is ignored and a truncated image refused.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "shared/base/image_folder.h"
#include "shared/image/image.h"
#include "shared/image/jpeg.h"
#include "shared/image/resize.h"
#include "shared/image/stretch.h"
#include "shared/shard/shard_set.h"

namespace retina {

// A file below a folder by its name in it: "a/b.png"; any bytes but zero.
struct SkippedFile {
  std::string name{};
  FileProblem problem{};  // kinds: ImageFolder's, "unreadable", "format" (no image), "damaged"
};
struct FolderListing {
  std::vector<std::string> names{};    // sorted by bytes
  std::vector<SkippedFile> skipped{};  // folders that may not be read
};

// Lists all files below `folder` at any depth except those of is_clutter() names and in such
// folders. Links to files and folders are followed, each folder is entered once, `without` (the
// folder of the results) never. `on_folder` is called for each folder. Throws kNoInput if there is
// no such folder, or no permission, kConfig if `without` is the folder itself, kIo.
FolderListing list_files(const std::string& folder, const std::string& without,
                         const std::function<void()>& on_folder = {});

// Returns an error about `path` as a file's problem; its reason need not repeat the name.
FileProblem unreadable(const std::string& path, const Error& error);

// Runs `read()`, and turns a file that may not be read, or that there is no memory for, into a
// problem like any other.
std::optional<FileProblem> unless_unreadable(
    const ImageFolder& folder, const std::string& path,
    const std::function<std::optional<FileProblem>()>& read);

// Returns what is wrong with the file of an image, with the fix for samples that need a stretch.
std::string reason_with_fix(const std::string& path, const DecodeStatus& status,
                            const std::string& reason);

// The header of an image file.
struct FoundImage {
  std::string name{};
  std::size_t root = 0;       // place in ImageListing::roots
  int width = 0, height = 0;  // as stored
  int orientation = 1;        // see orientation.h
  std::uint64_t xxh3 = 0;     // hash of the whole file
};
struct LookedAt {
  FoundImage image{};
  std::optional<FileProblem> problem{};
};
// Reads all of the file: its hash shows whether it has changed. Images of more pixels than the
// decoder's limit, which decode_file() refuses, are a problem here; with a higher limit, only those
// that cannot be read by rows. `stretch` as in row_reader.h, here and below. Throws kIo.
LookedAt look_at(const ImageFolder& folder, const std::string& name, JpegDecoder& decoder,
                 const std::optional<Stretch>& stretch = {});

// Options for decoding a file, and its size when it was first read.
struct DecodeRequest {
  ImageSize expected{};
  std::optional<Stretch> stretch{};
};

// Decodes a file of `folder` into `out`, whose storage is reused, if it has the size in `request`.
// Throws kIo if the folder or its mount is gone.
std::optional<FileProblem> decode_file(const ImageFolder& folder, const std::string& name,
                                       const DecodeRequest& request, JpegDecoder& decoder,
                                       Image& out);

}  // namespace retina
