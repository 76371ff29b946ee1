#include "shared/data/image_inputs.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/file_spelling.h"
#include "shared/base/image_folder.h"
#include "shared/base/printable.h"
#include "shared/image/row_reader.h"

namespace retina {
namespace {

namespace fs = std::filesystem;

// Returns what a path is, after links; not_found, too, where a link leads nowhere. Throws
// read_error().
fs::file_type type_of(const std::string& path) {
  std::error_code code;
  const fs::file_type type = fs::status(path, code).type();
  if (code && !means_no_file(code.value())) throw read_error(path, code.value());
  return code ? fs::file_type::not_found : type;
}

// Folders that the glob() of this thread could not read; its callback gets nothing but a folder and
// an errno.
thread_local std::vector<std::pair<std::string, int>> unread_folders;

// Returns the matching paths, without what systems leave in folders. Folders that may not be read
// go to `skipped`; throws read_error() for others.
std::vector<std::string> matches_of(const std::string& pattern, std::vector<SkippedFile>& skipped) {
  unread_folders.clear();
  glob_t found{};
  const std::unique_ptr<glob_t, void (*)(glob_t*)> owner(&found, ::globfree);
  const int status = ::glob(
      pattern.c_str(), 0,
      [](const char* folder, int code) {
        unread_folders.emplace_back(folder, code);
        return 0;
      },
      &found);
  if (status == GLOB_NOSPACE) throw std::bad_alloc();
  for (const auto& [folder, code] : unread_folders) {
    const Error error = read_error(folder, code);
    if (error.kind() != ErrorKind::kNoInput) throw error;
    skipped.push_back({.name = folder + "/", .problem = unreadable(folder, error)});
  }
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < found.gl_pathc; ++i) {
    const std::string path = found.gl_pathv[i];
    const std::string name = fs::path(path).filename().string();
    if (name.starts_with('.') || !is_clutter(name)) paths.push_back(path);
  }
  return paths;
}

bool is_same_folder(const std::string& path, const std::string& other) {
  std::error_code missing;
  return fs::equivalent(path, other, missing);
}

class Lister {
 public:
  Lister(const std::string& output, bool is_alone, const std::function<void()>& on_step)
      : output_(output), is_alone_(is_alone), on_step_(on_step) {}

  void add(const std::string& given) {
    const fs::file_type type = type_of(given);
    if (type == fs::file_type::regular) return add_file(given);
    if (type == fs::file_type::directory) return add_folder(given);
    if (type != fs::file_type::not_found) {
      throw Error(ErrorKind::kNoInput,
                  cat(escaped(given), ": is neither a regular file nor a folder"),
                  "check --images");
    }
    if (given.find_first_of("*?[") == std::string::npos) {
      throw Error(ErrorKind::kNoInput, cat(escaped(given), ": does not exist"),
                  given.find("://") == std::string::npos
                      ? "check --images"
                      : "addresses are not read: download the image first");
    }
    // A pattern: its folders count as if they were given.
    const std::vector<std::string> paths = matches_of(given, listing_.skipped);
    if (paths.empty()) {
      throw Error(ErrorKind::kNoInput, cat(escaped(given), ": no file has such a name"),
                  given.find("**") == std::string::npos
                      ? "check --images"
                      : "** is the same as * here, which matches in one folder");
    }
    is_alone_ = false;
    for (const std::string& path : paths) {
      type_of(path) == fs::file_type::directory ? add_folder(path) : add_file(path);
    }
  }

  ImageListing take() {
    std::vector<ImageFile>& files = listing_.files;
    if (!is_alone_) drop_repeated(files);
    std::stable_sort(files.begin(), files.end(),
                     [](const ImageFile& a, const ImageFile& b) { return a.name < b.name; });
    return std::move(listing_);
  }

 private:
  // Keeps a file that was given in several ways ("a.jpg", "./a.jpg", by its folder, by a link to
  // that) once, by the first of them.
  static void drop_repeated(std::vector<ImageFile>& files) {
    std::map<std::string, std::string> folders;  // by the path that was given
    std::set<std::string> known;
    std::erase_if(files, [&](const ImageFile& file) {
      const std::size_t name_begin = file.name.rfind('/') + 1;  // 0 without a folder
      const std::string way = file.name.substr(0, name_begin);
      const auto [folder, is_new] = folders.try_emplace(way);
      std::error_code gone;
      if (is_new) folder->second = fs::canonical(way.empty() ? "." : way, gone).string();
      return !known.insert(cat(folder->second, "/", file.name.substr(name_begin))).second;
    });
  }

  std::size_t root(ImageRoot wanted) {
    const auto [known, is_new] =
        root_of_.try_emplace({wanted.folder, wanted.prefix}, listing_.roots.size());
    if (is_new) listing_.roots.push_back(std::move(wanted));
    return known->second;
  }

  void add_file(const std::string& path) {
    const std::string prefix = path.substr(0, path.rfind('/') + 1);
    const std::size_t last = prefix.find_last_not_of('/');
    const std::string folder = prefix.empty()              ? "."
                               : last == std::string::npos ? "/"
                                                           : prefix.substr(0, last + 1);
    listing_.files.push_back({.name = path, .root = root({.folder = folder, .prefix = prefix})});
    if (on_step_) on_step_();
  }

  void add_folder(const std::string& path) {
    if (!is_alone_ && is_same_folder(path, output_)) return;  // as if it were below a folder
    const std::string prefix = is_alone_ ? "" : path.ends_with('/') ? path : path + "/";
    FolderListing below = list_files(path, output_, on_step_);
    if (!is_alone_ && below.names.empty() && below.skipped.empty()) {
      below.skipped.push_back({.problem = {.kind = "empty", .reason = "holds no files"}});
    }
    const std::size_t place = root({.folder = path, .prefix = prefix});
    for (const std::string& name : below.names) {
      listing_.files.push_back({.name = prefix + name, .root = place});
    }
    for (SkippedFile& one : below.skipped) {
      listing_.skipped.push_back({.name = prefix + one.name, .problem = std::move(one.problem)});
    }
  }

  const std::string& output_;
  bool is_alone_;  // a single value was given, and it is not a pattern
  const std::function<void()>& on_step_;
  ImageListing listing_{};
  std::map<std::pair<std::string, std::string>, std::size_t> root_of_{};
};

// Images of more pixels are seen whole as a copy, whose longer side is at most kReducedSidePx.
constexpr std::int64_t kMostWholePixels = 24'000'000;
constexpr int kReducedSidePx = 2048;

std::optional<FileProblem> problem_of(const DecodeStatus& status) {
  const std::string reason = unusable_reason(status, policy_on_foreign_files(status));
  if (reason.empty()) return std::nullopt;
  return FileProblem{.kind = status.unsupported ? "format" : "damaged", .reason = reason};
}

// Returns the problem of a file that was just opened, or nothing.
std::optional<FileProblem> problem_of(const std::string& path, const DecodeStatus& status,
                                      const DecodeRequest& request) {
  std::optional<FileProblem> problem = problem_of(status);
  if (problem && !request.stretch) {
    problem->reason = reason_with_fix(path, status, problem->reason);
  }
  return problem;
}

std::optional<FileProblem> changed_problem(const ImageSize& got, const ImageSize& expected) {
  if (got.width == expected.width && got.height == expected.height) return std::nullopt;
  return FileProblem{.kind = "damaged", .reason = "the file changed while it was used"};
}

class FileRows : public ImageRows {
 public:
  FileRows(const ImageFolder& folder, const std::string& name, const DecodeRequest& request) {
    FoundFile file;
    problem_ = folder.find(name, file);
    if (problem_) return;
    problem_ = unless_unreadable(folder, file.path, [&]() -> std::optional<FileProblem> {
      reader_.emplace(file.path, RowOptions{.stretch = request.stretch});
      auto problem = problem_of(file.path, reader_->status(), request);
      return problem ? problem
                     : changed_problem({reader_->width(), reader_->height()}, request.expected);
    });
  }

  std::optional<FileProblem> read(int count, Image& out) override {
    if (!problem_) {
      problem_ = unless_too_large([&] { return problem_of(reader_->read(count, out)); });
    }
    return problem_;
  }
  std::optional<FileProblem> skip(int count) override {
    if (!problem_) problem_ = unless_too_large([&] { return problem_of(reader_->skip(count)); });
    return problem_;
  }

 private:
  std::optional<RowReader> reader_{};
  std::optional<FileProblem> problem_{};
};

}  // namespace

ImageListing list_images(const std::vector<std::string>& given, const std::string& output,
                         const std::function<void()>& on_step) {
  Lister lister(output, given.size() == 1, on_step);
  for (const std::string& one : given) lister.add(one);
  return lister.take();
}

ImageFiles::ImageFiles(std::vector<ImageRoot> roots, const std::vector<FoundImage>& images,
                       const ImageFilesOptions& options)
    : roots_(std::move(roots)), options_(options) {
  for (const ImageRoot& root : roots_) folders_.emplace_back(root.folder, options.max_file_bytes);
  for (const FoundImage& one : images) {
    root_of_.push_back(one.root);
    index_.push_back({.image_id = static_cast<std::int64_t>(index_.size()) + 1,
                      .width = one.width,
                      .height = one.height,
                      .file_name = one.name});
  }
}

Sample ImageFiles::load(const BatchRequest& request, std::size_t place, JpegDecoder& decoder,
                        PixelTarget pixels) const {
  const std::size_t record = request.slots[place].record;
  const IndexEntry entry = index_[record];
  Sample sample = sized_sample(request, place, {.width = entry.width, .height = entry.height});
  sample.image_id = entry.image_id;
  sample.file_name = entry.file_name;
  Image image;
  sample.problem = decode(record, decoder, image);
  if (!sample.problem) put_pixels(image, request, sample, options_.normalisation, pixels);
  return sample;
}

std::string ImageFiles::name_in_folder(std::size_t place) const {
  return roots_[root_of_[place]].name_in_folder(index_[place].file_name);
}

DecodeRequest ImageFiles::request_of(std::size_t place) const {
  return {.expected = {index_[place].width, index_[place].height}, .stretch = options_.stretch};
}

std::optional<FileProblem> ImageFiles::decode(std::size_t place, JpegDecoder& decoder,
                                              Image& out) const {
  return decode_file(folders_[root_of_[place]], name_in_folder(place), request_of(place), decoder,
                     out);
}

std::unique_ptr<ImageRows> ImageFiles::open_rows(std::size_t place) const {
  return std::make_unique<FileRows>(folders_[root_of_[place]], name_in_folder(place),
                                    request_of(place));
}

ImageSize ImageFiles::whole_size(std::size_t place) const {
  const ImageSize image = {index_[place].width, index_[place].height};
  if (std::int64_t{image.width} * image.height <= kMostWholePixels) return image;
  const int longer = std::max(image.width, image.height);
  const int divisor = (longer + kReducedSidePx - 1) / kReducedSidePx;
  return {.width = (image.width + divisor - 1) / divisor,
          .height = (image.height + divisor - 1) / divisor};
}

std::optional<FileProblem> ImageFiles::decode_whole(std::size_t place, JpegDecoder& decoder,
                                                    Image& out) const {
  const IndexEntry entry = index_[place];
  if (whole_size(place).width == entry.width) return decode(place, decoder, out);
  return decode_reduced(place, kReducedSidePx, out);
}

std::optional<FileProblem> ImageFiles::decode_reduced(std::size_t place, int max_side_px,
                                                      Image& out) const {
  const ImageFolder& folder = folders_[root_of_[place]];
  const DecodeRequest request = request_of(place);
  FoundFile file;
  if (auto problem = folder.find(name_in_folder(place), file)) return problem;
  return unless_unreadable(folder, file.path, [&]() -> std::optional<FileProblem> {
    ReducedImage reduced = read_reduced(file.path, max_side_px, request.stretch);
    if (auto problem = problem_of(file.path, reduced.status, request)) return problem;
    if (auto problem = changed_problem({reduced.width, reduced.height}, request.expected)) {
      return problem;
    }
    out = std::move(reduced.image);
    return std::nullopt;
  });
}

std::optional<FileProblem> ImageFiles::decode_part(std::size_t place, const TileRect& part,
                                                   Image& out) const {
  const std::unique_ptr<ImageRows> rows = open_rows(place);
  if (auto problem = rows->skip(part.y)) return problem;
  Image band;
  if (auto problem = rows->read(part.height, band)) return problem;
  out = Image(part.width, part.height);
  for (int y = 0; y < part.height; ++y) {
    std::copy_n(band.pixel(part.x, y), std::ptrdiff_t{3} * part.width, out.pixel(0, y));
  }
  return std::nullopt;
}

}  // namespace retina
