#include "preprocess/source_images.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <unordered_map>

#include "preprocess/formats/cifar10.h"
#include "preprocess/formats/image_names.h"
#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "shared/base/file_spelling.h"
#include "shared/base/printable.h"
#include "shared/base/signals.h"

namespace retina {
namespace {

namespace fs = std::filesystem;

bool has_no_file(const QuarantinedImage& image) {
  return image.kind == "missing" || image.kind == "name";
}

using NamesByKey = std::unordered_map<std::string, std::vector<std::string>>;

// The images below `folder` by look_alike_key(), those that came within the time.
NamesByKey list_by_key(const std::string& folder) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + std::chrono::seconds(10);
  NamesByKey names;
  std::error_code code;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied,
                                         code);
  for (; !code && entry != fs::recursive_directory_iterator(); entry.increment(code)) {
    if (stop_signal() != 0 || Clock::now() > end) break;
    std::error_code ignored;
    if (is_clutter(entry->path().filename().string())) {
      entry.disable_recursion_pending();
      continue;
    }
    if (entry->is_directory(ignored) || !is_image_name(entry->path())) continue;
    const std::string name = entry->path().lexically_relative(folder).string();
    names[look_alike_key(name)].push_back(name);
  }
  return names;
}

}  // namespace

std::int64_t modified_ns(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return 0;
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

SourceImages::SourceImages(const ImageSource& source)
    : folder_(source.folder, source.max_file_bytes), format_(source.format) {}

std::optional<FileProblem> SourceImages::find(const std::string& name, FoundFile& out) const {
  return folder_.find(name, out);
}

std::optional<FileProblem> SourceImages::find_place(const std::string& name, Place& out) const {
  if (format_ != AnnotationFormat::kCifar10) return folder_.find(name, out.file);
  const std::optional<Cifar10Place> inside = cifar10_place(name);
  if (!inside) return FileProblem{.kind = "name", .reason = "is not an image of a batch"};
  out.offset_bytes = inside->offset_bytes;
  return folder_.find(inside->batch_file, out.file);
}

std::optional<FileProblem> SourceImages::read(const std::string& name, SourceImage& out) const {
  Place place;
  if (auto problem = find_place(name, place)) return problem;
  if (place.offset_bytes) return read_part_of(place, out);
  out.raw_size.reset();
  out.found_as = place.file.name == name ? "" : place.file.name;
  try {
    out.bytes = read_file(place.file.path);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kNoInput) folder_.check_present();  // gone since it was found
    throw;
  }
  return std::nullopt;
}

std::optional<FileProblem> SourceImages::read_part_of(const Place& place, SourceImage& out) const {
  const std::string planes = read_part(place.file.path, *place.offset_bytes, kCifar10ImageBytes);
  if (planes.size() < kCifar10ImageBytes) {
    return FileProblem{.kind = "damaged", .reason = "its file ends before the image does"};
  }
  out.bytes = cifar10_rgb(planes);
  out.raw_size = ImageSize{.width = kCifar10SidePx, .height = kCifar10SidePx};
  return std::nullopt;
}

std::optional<std::uint64_t> SourceImages::size_bytes(const std::string& name) const {
  try {
    Place place;
    if (find_place(name, place)) return std::nullopt;
    return place.offset_bytes ? kCifar10ImageBytes : place.file.size_bytes;
  } catch (const Error&) {  // the folder is gone
    return std::nullopt;
  }
}

void name_look_alikes(std::vector<QuarantinedImage>& images, const std::string& folder,
                      std::size_t image_count) {
  if (std::none_of(images.begin(), images.end(), has_no_file)) return;
  constexpr const char* kCorrectNames = "correct --images or the file names in the annotations";
  // The file that looks like each missing one.
  NamesByKey names = list_by_key(folder);
  std::unordered_map<std::string, std::size_t> helped;  // images by hint
  for (QuarantinedImage& image : images) {
    if (!has_no_file(image)) continue;
    const auto alike = names.find(look_alike_key(image.file_name));
    if (alike == names.end()) {
      --image_count;  // nothing helps
      continue;
    }
    const auto& found = alike->second;
    const std::string& first = *std::min_element(found.begin(), found.end());
    if (first == image.file_name) continue;  // it has just come
    image.reason +=
        cat("; the folder has ", escaped(first),
            found.size() > 1 ? cat(" and ", found.size() - 1, " more of this name") : "");
    image.hint = kCorrectNames;
    if (found.size() == 1 && first.ends_with("/" + image.file_name)) {
      const std::string below = first.substr(0, first.size() - image.file_name.size() - 1);
      image.hint = cat("give --images ", (fs::path(folder) / below).string());
    }
    ++helped[image.hint];
  }
  // Another folder that has only a few of the images would lose the others.
  for (QuarantinedImage& image : images) {
    const auto hint = helped.find(image.hint);
    if (hint != helped.end() && hint->second * 10 < image_count * 9) image.hint = kCorrectNames;
  }
}

}  // namespace retina
