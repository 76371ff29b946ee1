#include "preprocess/source_images.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
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
    if (is_dropping(entry->path().filename().string())) {
      entry.disable_recursion_pending();
      continue;
    }
    if (entry->is_directory(ignored) || !is_image_name(entry->path())) continue;
    const std::string name = entry->path().lexically_relative(folder).string();
    names[look_alike_key(name)].push_back(name);
  }
  return names;
}

std::string folder_of(const std::string& name) {
  return name.substr(0, name.size() - last_part(name).size());
}

std::string ending_of(const std::string& name) {
  return fs::path(name).extension().string();
}

// How two names differ: the lower the rank, the likelier they mean the same file.
struct Difference {
  bool in_folder = false, in_ending = false, in_letters = false;

  Difference(const std::string& wanted, const std::string& found)
      : in_folder(folder_of(wanted) != folder_of(found)),
        in_ending(ending_of(wanted) != ending_of(found)),
        in_letters(fs::path(last_part(wanted)).stem() != fs::path(last_part(found)).stem()) {}

  int rank() const { return (in_folder ? 4 : 0) + (in_ending ? 2 : 0) + (in_letters ? 1 : 0); }
};

constexpr const char* kCorrectFolders = "correct the folders of the file names in the annotations";

// The cure of a name in the annotations, both as plain_spelling(), in words that are the same for
// all images that it helps.
std::string cure_of(const std::string& wanted, const std::string& found,
                    const std::string& folder) {
  const Difference difference(wanted, found);
  if (difference.rank() == 0) {
    return "correct the file names in the annotations, or rename the files: their accents have "
           "another Unicode form";
  }
  if (!difference.in_folder) {
    return difference.in_ending && !difference.in_letters
               ? "correct the endings of the file names in the annotations"
               : "correct the file names in the annotations, or rename the files: capital letters "
                 "and accents count";
  }
  const std::string there = folder_of(found), said = folder_of(wanted);
  const bool is_below = !wanted.starts_with('/') && there.ends_with(said);
  if (is_below && !difference.in_ending && !difference.in_letters) {
    fs::path below = fs::path(folder) / there.substr(0, there.size() - said.size());
    return cat("give --images ", below.parent_path().string());
  }
  return said.ends_with("/" + there) || there.empty()
             ? cat("remove \"", escaped(said.substr(0, said.size() - there.size())),
                   "\" from the file names in the annotations")
             : kCorrectFolders;
}

}  // namespace

std::int64_t modified_ns(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return 0;
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

SourceImages::SourceImages(const std::string& folder, AnnotationFormat format,
                           std::uint64_t max_file_bytes)
    : folder_(folder, max_file_bytes), format_(format) {}

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
  out.bytes = read_file(place.file.path);
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

void name_look_alikes(std::vector<QuarantinedImage>& images, const std::string& folder) {
  if (std::none_of(images.begin(), images.end(), has_no_file)) return;
  NamesByKey names = list_by_key(folder);
  for (QuarantinedImage& image : images) {
    if (!has_no_file(image)) continue;
    const auto alike = names.find(look_alike_key(image.file_name));
    if (alike == names.end()) continue;
    const std::string wanted = plain_spelling(image.file_name);
    std::vector<std::pair<int, std::string>> ranked;
    for (const std::string& name : alike->second) {
      ranked.emplace_back(Difference(wanted, plain_spelling(name)).rank(), name);
    }
    const auto& [rank, found] = *std::min_element(ranked.begin(), ranked.end());
    if (found == image.file_name) continue;  // it has just come
    const auto count =
        std::count_if(ranked.begin(), ranked.end(),
                      [&, best = rank](const auto& one) { return one.first == best; });
    image.reason += cat("; the folder has ", escaped(found),
                        count > 1 ? cat(" and ", count - 1, " more of this name") : "");
    image.hint = count > 1 ? kCorrectFolders : cure_of(wanted, plain_spelling(found), folder);
  }
}

void keep_common_folders(std::vector<QuarantinedImage>& images, std::size_t image_count) {
  std::map<std::string, std::size_t> helped;
  for (const QuarantinedImage& image : images) {
    ++helped[image.hint];
    if (has_no_file(image) && image.hint.empty()) --image_count;
  }
  for (QuarantinedImage& image : images) {
    const bool is_folder = image.hint.starts_with("give --images");
    if (is_folder && helped[image.hint] * 10 < image_count * 9) image.hint = kCorrectFolders;
  }
}
}  // namespace retina
