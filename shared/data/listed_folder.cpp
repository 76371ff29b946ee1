#include "shared/data/listed_folder.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/file_spelling.h"
#include "shared/base/hash.h"
#include "shared/image/image_file.h"
#include "shared/image/orientation.h"
#include "shared/image/row_reader.h"

namespace retina {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kStartBytes = std::size_t{64} << 10;

using FolderId = std::pair<dev_t, ino_t>;

std::optional<FolderId> folder_id(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return std::nullopt;
  return FolderId{status.st_dev, status.st_ino};
}

// Returns the folder's entries, without what systems leave there, by name; throws read_error().
std::vector<fs::directory_entry> entries_of(const std::string& path) {
  std::error_code code;
  std::vector<fs::directory_entry> entries;
  for (fs::directory_iterator at(path, code), end; !code && at != end; at.increment(code)) {
    if (!is_clutter(at->path().filename().string())) entries.push_back(*at);
  }
  if (code) throw read_error(path, code.value());
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.path().native() < b.path().native(); });
  return entries;
}

FileProblem image_problem(std::string_view bytes, const DecodeStatus& status,
                          const std::string& reason) {
  const bool is_ours = is_image_format(image_format(bytes)) && !status.unsupported;
  return {.kind = is_ours ? "damaged" : "format", .reason = reason};
}

}  // namespace

FileProblem unreadable(const std::string& path, const Error& error) {
  std::string reason = error.what();
  if (reason.starts_with(path + ": ")) reason.erase(0, path.size() + 2);
  return {.kind = "unreadable", .reason = reason};
}

std::optional<FileProblem> unless_unreadable(
    const ImageFolder& folder, const std::string& path,
    const std::function<std::optional<FileProblem>()>& read) {
  try {
    return unless_too_large(read);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNoInput) throw;
    folder.check_present();
    return unreadable(path, error);
  }
}

FolderListing list_files(const std::string& folder, const std::string& without,
                         const std::function<void()>& on_folder) {
  require_folder(folder, "check --images");
  const std::optional<FolderId> top = folder_id(folder);
  std::set<FolderId> entered;
  if (const auto id = folder_id(without)) {
    if (id == top) {
      throw Error(ErrorKind::kConfig, cat(folder, ": the images' folder is also the output's"),
                  "choose another --output");
    }
    entered.insert(*id);
  }
  FolderListing listing;
  std::vector<std::string> folders = {""};  // to enter, the next one last; each ends with '/'
  while (!folders.empty()) {
    const std::string prefix = std::move(folders.back());
    folders.pop_back();
    const std::string path = cat(folder, "/", prefix);
    const std::optional<FolderId> id = folder_id(path);
    if (!id || !entered.insert(*id).second) continue;
    if (on_folder) on_folder();
    std::vector<fs::directory_entry> entries;
    try {
      entries = entries_of(path);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kNoInput || prefix.empty()) throw;
      listing.skipped.push_back({.name = prefix, .problem = unreadable(path, error)});
      continue;
    }
    // The last folder is entered first: in reverse, so that of several paths to a folder the one
    // that sorts first is used.
    for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
      const std::string name = prefix + entry->path().filename().string();
      std::error_code code;  // of a link that leads nowhere
      if (entry->is_directory(code)) {
        folders.push_back(name + "/");
      } else {
        listing.names.push_back(name);
      }
    }
  }
  std::sort(listing.names.begin(), listing.names.end());
  return listing;
}

std::string reason_with_fix(const std::string& path, const DecodeStatus& status,
                            const std::string& reason) {
  if (!status.unsupported) return reason;
  const FileReader file(path);
  return may_be_stretched(ImageBytes(file)) ? cat(reason, "; add --stretch 2,98") : reason;
}

LookedAt look_at(const ImageFolder& folder, const std::string& name, JpegDecoder& decoder,
                 const std::optional<Stretch>& stretch) {
  LookedAt result{.image = {.name = name}};
  FoundImage& image = result.image;
  const std::string path = cat(folder.path(), "/", name);
  result.problem = unless_unreadable(folder, path, [&]() -> std::optional<FileProblem> {
    FoundFile file;
    if (auto problem = folder.find(name, file)) return problem;
    std::string bytes;  // the first kStartBytes
    Hasher hasher;
    read_pieces(file.path, [&](std::string_view piece) {
      hasher.update(piece.data(), piece.size());
      if (bytes.size() < kStartBytes) bytes += piece.substr(0, kStartBytes - bytes.size());
    });
    image.xxh3 = hasher.digest();
    DecodeStatus status = read_any_size(bytes, decoder, image.width, image.height);
    const auto read_header = [&] {  // the header may be anywhere in the file
      const RowReader rows(file.path, {.stretch = stretch});
      status = rows.status();
      image.width = rows.width();
      image.height = rows.height();
    };
    if (!status.ok && bytes.size() < file.size_bytes && is_image_format(image_format(bytes))) {
      if (file.size_bytes > kMaxImageFileBytes) {
        read_header();
      } else {
        bytes = read_file(file.path);
        status = read_any_size(bytes, decoder, image.width, image.height);
      }
    }
    if (!status.ok) return image_problem(bytes, status, status.problem);
    const FileReader whole(file.path);  // the tag may come after the pixels
    image.orientation = exif_orientation(ImageBytes(whole));
    std::string problem;
    if (has_too_many_pixels(image.width, image.height, decoder.max_pixels(), problem)) {
      return FileProblem{.kind = "too-large", .reason = problem};
    }
    if (has_too_many_pixels(image.width, image.height, kDefaultMaxPixels, problem)) {
      read_header();  // not ok unless it can be read by rows
      if (!status.ok) {
        const std::string& reason = status.problem;
        return image_problem(bytes, status,
                             stretch ? reason : reason_with_fix(file.path, status, reason));
      }
    }
    return std::nullopt;
  });
  return result;
}

std::optional<FileProblem> decode_file(const ImageFolder& folder, const std::string& name,
                                       const DecodeRequest& request, JpegDecoder& decoder,
                                       Image& out) {
  return unless_unreadable(folder, cat(folder.path(), "/", name), [&]() {
    FoundFile file;
    if (auto problem = folder.find(name, file)) return problem;
    const std::string bytes = read_file(file.path);
    const DecodeStatus status = request.stretch ? decode_stretched(bytes, *request.stretch, out)
                                                : decode_any_image(bytes, decoder, out);
    std::string reason = unusable_reason(status, policy_on_foreign_files(status));
    const ImageSize& expected = request.expected;
    if (reason.empty() && (out.width != expected.width || out.height != expected.height)) {
      reason = "the file changed while it was used";
    }
    if (reason.empty()) return std::optional<FileProblem>();
    if (!request.stretch) reason = reason_with_fix(file.path, status, reason);
    return std::optional(image_problem(bytes, status, reason));
  });
}

}  // namespace retina
