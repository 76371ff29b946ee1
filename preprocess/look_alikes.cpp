#include "preprocess/look_alikes.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <system_error>
#include <unordered_map>

#include "shared/base/cat.h"
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

// The files below `folder` by look_alike_key(), those that came within the time.
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
    if (entry->is_directory(ignored)) continue;
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
             : "correct the folders of the file names in the annotations";
}

}  // namespace

void name_look_alikes(std::vector<QuarantinedImage>& images, const std::string& folder,
                      std::size_t image_count) {
  if (std::none_of(images.begin(), images.end(), has_no_file)) return;
  NamesByKey names = list_by_key(folder);
  for (QuarantinedImage& image : images) {
    if (!has_no_file(image)) continue;
    const auto alike = names.find(look_alike_key(image.file_name));
    if (alike == names.end()) continue;
    const std::string wanted = plain_spelling(image.file_name);
    const std::string& found = *std::min_element(
        alike->second.begin(), alike->second.end(), [&](const auto& a, const auto& b) {
          const int rank_a = Difference(wanted, plain_spelling(a)).rank(),
                    rank_b = Difference(wanted, plain_spelling(b)).rank();
          return rank_a != rank_b ? rank_a < rank_b : a < b;
        });
    if (found == image.file_name) continue;  // it has just come
    image.reason += cat("; the folder has ", escaped(found));
    image.hint = cure_of(wanted, plain_spelling(found), folder);
  }
  // Another --images that has a few of them would lose the others.
  std::map<std::string, std::size_t> helped;
  for (const QuarantinedImage& image : images) ++helped[image.hint];
  for (QuarantinedImage& image : images) {
    if (image.hint.starts_with("give --images") && helped[image.hint] * 2 < image_count) {
      image.hint = "correct the folders of the file names in the annotations";
    }
  }
}

}  // namespace retina
