#include "preprocess/source_images.h"

#include <filesystem>

#include "preprocess/formats/cifar10.h"
#include "shared/base/file.h"

namespace retina {

SourceImages::SourceImages(const std::string& folder, AnnotationFormat format)
    : folder_(folder), format_(format) {}

std::optional<SourceImages::Place> SourceImages::place_of(const std::string& name) const {
  std::string file_name = name;
  std::optional<std::uint64_t> offset_bytes;
  if (format_ == AnnotationFormat::kCifar10) {
    const std::optional<Cifar10Place> inside = cifar10_place(name);
    if (!inside) return std::nullopt;
    file_name = inside->batch_file;
    offset_bytes = inside->offset_bytes;
  }
  const std::optional<std::string> path = folder_.path_of(file_name);
  if (!path) return std::nullopt;
  return Place{.path = *path, .offset_bytes = offset_bytes};
}

std::optional<FileProblem> SourceImages::read(const std::string& name, SourcePicture& out) const {
  const std::optional<Place> place = place_of(name);
  if (!place) {
    return FileProblem{.kind = "name", .reason = "the file name leads out of the image folder"};
  }
  if (place->offset_bytes) return read_part_of(*place, out);
  // Asked before the file is read: a change meanwhile shows.
  const std::int64_t time_ns = modified_ns(place->path);
  out.raw_size.reset();
  if (const auto problem = folder_.read(place->path, out.bytes)) return problem;
  out.file = source_file(out.bytes, time_ns);
  return std::nullopt;
}

std::optional<FileProblem> SourceImages::read_part_of(const Place& place,
                                                      SourcePicture& out) const {
  std::error_code code;
  if (!std::filesystem::is_regular_file(place.path, code)) {
    folder_.check_present();
    return FileProblem{.kind = "missing", .reason = "its file does not exist"};
  }
  const std::int64_t time_ns = modified_ns(place.path);
  const std::string planes = read_part(place.path, *place.offset_bytes, kCifar10PictureBytes);
  if (planes.size() < kCifar10PictureBytes) {
    return FileProblem{.kind = "damaged", .reason = "its file ends before the picture does"};
  }
  out.bytes = cifar10_rgb(planes);
  out.raw_size = ImageSize{.width = kCifar10SidePx, .height = kCifar10SidePx};
  out.file = source_file(out.bytes, time_ns);
  return std::nullopt;
}

FileMatch SourceImages::compare(const std::string& name, const SourceFile& packed) const {
  const std::optional<Place> place = place_of(name);
  if (!place) return FileMatch::kMissing;
  if (!place->offset_bytes) return compare_file(place->path, packed);
  if (!is_there(name)) return FileMatch::kMissing;
  if (modified_ns(place->path) == packed.modified_ns) return FileMatch::kSame;
  SourcePicture now;
  const bool is_same = !read_part_of(*place, now) && now.file.xxh3 == packed.xxh3;
  return is_same ? FileMatch::kSame : FileMatch::kOther;
}

bool SourceImages::is_there(const std::string& name) const {
  const std::optional<Place> place = place_of(name);
  std::error_code code;
  return place && std::filesystem::is_regular_file(place->path, code);
}

std::optional<std::uint64_t> SourceImages::size_bytes(const std::string& name) const {
  const std::optional<Place> place = place_of(name);
  if (!place) return std::nullopt;
  if (place->offset_bytes) return kCifar10PictureBytes;
  std::error_code code;
  const auto size = std::filesystem::file_size(place->path, code);
  if (code) return std::nullopt;
  return size;
}

}  // namespace retina
