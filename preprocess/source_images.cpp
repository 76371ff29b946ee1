#include "preprocess/source_images.h"

#include <filesystem>

#include "preprocess/formats/cifar10.h"
#include "shared/base/file.h"

namespace retina {

SourceImages::SourceImages(const std::string& folder, AnnotationFormat format)
    : folder_(folder), format_(format) {}

std::optional<FileProblem> SourceImages::find(const std::string& name, Place& out) const {
  if (format_ != AnnotationFormat::kCifar10) return folder_.find(name, out.file);
  const std::optional<Cifar10Place> inside = cifar10_place(name);
  if (!inside) return FileProblem{.kind = "name", .reason = "is not an image of a batch"};
  out.offset_bytes = inside->offset_bytes;
  return folder_.find(inside->batch_file, out.file);
}

std::optional<FileProblem> SourceImages::read(const std::string& name, SourceImage& out) const {
  Place place;
  if (auto problem = find(name, place)) return problem;
  if (place.offset_bytes) return read_part_of(place, out);
  // Asked before the file is read: a change meanwhile shows.
  const std::int64_t time_ns = modified_ns(place.file.path);
  out.raw_size.reset();
  out.found_as = place.file.name == name ? "" : place.file.name;
  out.bytes = read_file(place.file.path);
  out.file = source_file(out.bytes, time_ns);
  return std::nullopt;
}

std::optional<FileProblem> SourceImages::read_part_of(const Place& place, SourceImage& out) const {
  const std::int64_t time_ns = modified_ns(place.file.path);
  const std::string planes = read_part(place.file.path, *place.offset_bytes, kCifar10ImageBytes);
  if (planes.size() < kCifar10ImageBytes) {
    return FileProblem{.kind = "damaged", .reason = "its file ends before the image does"};
  }
  out.bytes = cifar10_rgb(planes);
  out.raw_size = ImageSize{.width = kCifar10SidePx, .height = kCifar10SidePx};
  out.file = source_file(out.bytes, time_ns);
  return std::nullopt;
}

FileMatch SourceImages::compare(const std::string& name, const SourceFile& packed) const {
  Place place;
  if (const auto problem = find(name, place)) {
    return problem->kind == "too-large" ? FileMatch::kOther : FileMatch::kMissing;
  }
  if (!place.offset_bytes) return compare_file(place.file.path, packed);
  if (modified_ns(place.file.path) == packed.modified_ns) return FileMatch::kSame;
  SourceImage now;
  const bool is_same = !read_part_of(place, now) && now.file.xxh3 == packed.xxh3;
  return is_same ? FileMatch::kSame : FileMatch::kOther;
}

bool SourceImages::is_there(const std::string& name) const {
  return size_bytes(name).has_value();
}

std::optional<std::uint64_t> SourceImages::size_bytes(const std::string& name) const {
  try {
    Place place;
    if (find(name, place)) return std::nullopt;
    return place.offset_bytes ? kCifar10ImageBytes : place.file.size_bytes;
  } catch (const Error&) {  // the folder is gone
    return std::nullopt;
  }
}

}  // namespace retina
