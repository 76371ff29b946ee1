#include "preprocess/formats/parts.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <set>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/log.h"
#include "shared/base/parallel.h"
#include "shared/base/printable.h"
#include "shared/data/listed_folder.h"
#include "shared/image/jpeg.h"
#include "shared/image/orientation.h"

namespace retina {
namespace {

// The largest table that people train on, Open Images' 14.6 million boxes, has 2.3 GB.
constexpr std::uint64_t kMostTableBytes = std::uint64_t{8} << 30;

}  // namespace

void fail_line(const std::string& path, std::size_t line, const std::string& problem) {
  throw Error(ErrorKind::kData, cat(path, ": line ", line, ": ", problem));
}

double parse_number(std::string_view text, const char* field, const std::string& path,
                    std::size_t line) {
  text = trimmed(text);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number)) {
    fail_line(path, line, cat(field, ": got \"", escaped(text), "\", want a number"));
  }
  return number;
}

std::vector<std::string> split_csv(std::string_view line, char separator) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += line[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == separator && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

bool is_image_name(const std::string& name) {
  const std::string suffix = lower_suffix(name);
  for (const char* known : {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff"}) {
    if (suffix == known) return true;
  }
  return false;
}

bool is_split_name(const std::string& folder) {
  const std::string lower = lower_case(folder);
  for (const char* split : {"train", "training", "val", "valid", "validation", "test", "testing"}) {
    if (lower == split) return true;
  }
  return false;
}

std::string_view trimmed(std::string_view text) {
  for (bool is_cut = true; is_cut;) {
    is_cut = false;
    for (const std::string_view space :
         {" ", "\t", "\n", "\r", "\xC2\xA0", "\xE3\x80\x80", "\xEF\xBB\xBF"}) {
      const bool begins = text.starts_with(space);
      if (begins) text.remove_prefix(space.size());
      const bool ends = text.ends_with(space);
      if (ends) text.remove_suffix(space.size());
      is_cut = is_cut || begins || ends;
    }
  }
  return text;
}

std::string lower_suffix(const std::string& name) {
  std::string suffix = std::filesystem::path(name).extension().string();
  std::transform(suffix.begin(), suffix.end(), suffix.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return suffix;
}

std::string first_names(const std::vector<std::string>& names) {
  constexpr std::size_t kNamed = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(kNamed, names.size()); ++i) {
    text += cat(i == 0 ? "" : ", ", escaped(names[i]));
  }
  return text + (names.size() > kNamed ? ", ..." : "");
}

Categories numbered_categories(const std::vector<std::string>& names) {
  Categories categories;
  for (const std::string& name : names) {
    categories.push_back({.id = static_cast<std::int64_t>(categories.size()) + 1, .name = name});
  }
  return categories;
}

void AnnotationFiles::add(const std::string& name, std::string_view text) {
  for (const std::string_view part : {std::string_view(name), text}) {
    const std::uint64_t size = part.size();
    hasher_.update(&size, sizeof size);
    hasher_.update(part.data(), part.size());
  }
  size_bytes_ += text.size();
}

std::string AnnotationFiles::read(const std::string& path, const std::string& name,
                                  EncodingIn where) {
  std::string text = read_text(path, kMostTableBytes);
  add(name, text);
  return decode_text(std::move(text), where, path);
}

void AnnotationFiles::read_pieces(const std::string& path, const std::string& name,
                                  std::size_t piece_bytes,
                                  const std::function<void(std::string_view)>& take) {
  Hasher content;
  FileReader file(path);
  std::string piece(piece_bytes, '\0');
  while (const std::size_t got = file.read(piece.data(), piece.size())) {
    content.update(piece.data(), got);
    size_bytes_ += got;
    take(std::string_view(piece).substr(0, got));
  }
  const std::string digest = hex64(content.digest());
  add(name, digest);
  size_bytes_ -= digest.size();
}

std::vector<std::string> AnnotationFiles::read_lines(const std::string& path,
                                                     const std::string& name) {
  const std::string text = read(path, name, EncodingIn::kNothing);
  require_utf8(text, path);
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    if (!lines.back().empty() && lines.back().back() == '\r') lines.back().pop_back();
    begin = end + 1;
  }
  return lines;
}

std::vector<std::string> class_lines(const std::string& path, std::vector<std::string> lines) {
  while (!lines.empty() && trimmed(lines.back()).empty()) lines.pop_back();
  std::map<std::string, std::size_t> line_of;
  for (std::size_t line = 1; line <= lines.size(); ++line) {
    std::string& name = lines[line - 1];
    name = std::string(trimmed(name));
    if (name.empty()) fail_line(path, line, "is empty, want a class name a line");
    const auto [first, is_new] = line_of.emplace(name, line);
    if (!is_new) {
      fail_line(path, line,
                cat("class \"", escaped(name), "\" is that of line ", first->second, ", too"));
    }
  }
  if (lines.empty()) {
    throw Error(ErrorKind::kData, cat(path, ": has no classes, want a class name a line"));
  }
  return lines;
}

ClassIds::ClassIds(const std::string& path, AnnotationFiles& files) : path_(path) {
  const std::vector<std::string> lines = files.read_lines(path, "classes");
  const bool is_list = std::none_of(lines.begin(), lines.end(), [](const std::string& line) {
    return split_csv(line).size() > 1;
  });
  if (is_list) {
    std::int64_t next = 1;
    for (const std::string& name : class_lines(path, lines)) {
      ids_.emplace(split_csv(name).front(), next++);
    }
    return;
  }
  if (take_descriptions(lines)) return;
  std::map<std::int64_t, std::size_t> line_of;
  for (std::size_t line = 1; line <= lines.size(); ++line) {
    if (trimmed(lines[line - 1]).empty()) continue;
    const std::vector<std::string> fields = split_csv(lines[line - 1]);
    if (line == 1 && fields.size() == 2 && lower_case(trimmed(fields[1])) == "id") continue;
    const std::string name(trimmed(fields[0]));
    if (fields.size() != 2 || name.empty()) {
      fail_line(path, line,
                cat("got \"", escaped(lines[line - 1]), "\", want CLASS,ID (or a class name alone ",
                    "on every line)"));
    }
    const double id = parse_number(fields[1], "id", path, line);
    if (std::floor(id) != id || std::abs(id) > 1e9) {
      fail_line(path, line, cat("id: got ", escaped(fields[1]), ", want a whole number"));
    }
    const auto whole = static_cast<std::int64_t>(id);
    if (!ids_.emplace(name, whole).second) {
      fail_line(path, line, cat("class \"", escaped(name), "\" is there twice"));
    }
    const auto [first, is_new] = line_of.emplace(whole, line);
    if (!is_new)
      fail_line(path, line, cat("id ", whole, " is that of line ", first->second, ", too"));
  }
}

// Open Images': lines of "/m/011k07,Tortoise", which annotations call by the first.
bool ClassIds::take_descriptions(const std::vector<std::string>& lines) {
  std::int64_t next = 1;
  std::map<std::string, std::int64_t> ids;
  std::map<std::int64_t, std::string> shown;
  for (std::size_t line = 1; line <= lines.size(); ++line) {
    if (trimmed(lines[line - 1]).empty()) continue;
    const std::vector<std::string> fields = split_csv(lines[line - 1]);
    const bool is_one =
        fields.size() == 2 && fields[0].starts_with("/") && !trimmed(fields[1]).empty();
    if (!is_one && line == 1) continue;  // LabelName,DisplayName
    if (!is_one || !ids.emplace(fields[0], next).second) return false;
    shown[next++] = std::string(trimmed(fields[1]));
  }
  if (ids.empty()) return false;
  ids_ = std::move(ids);
  shown_ = std::move(shown);
  return true;
}

std::int64_t ClassIds::id_of(const std::string& name, const std::string& file,
                             std::size_t line) const {
  const auto found = ids_.find(name);
  if (found == ids_.end()) {
    fail_line(file, line, cat("class \"", escaped(name), "\" is not in ", path_));
  }
  return found->second;
}

Categories ClassIds::categories() const {
  Categories categories;
  for (const auto& [name, id] : ids_) {
    const auto shown = shown_.find(id);
    categories.push_back({.id = id, .name = shown == shown_.end() ? name : shown->second});
  }
  return categories;
}

std::vector<std::string> files_below(const std::string& folder) {
  FolderListing listing = list_files(folder, "");
  if (!listing.skipped.empty()) {
    const SkippedFile& first = listing.skipped.front();
    throw Error(ErrorKind::kNoInput,
                cat(folder, "/", escaped(first.name), ": ", first.problem.reason));
  }
  return std::move(listing.names);
}

ImageNames::ImageNames(std::vector<std::string> images) : images_(std::move(images)) {
  for (std::size_t i = 0; i < images_.size(); ++i) {
    const std::string stem = std::filesystem::path(images_[i]).replace_extension().string();
    const auto [place, is_new] = by_stem_.emplace(stem, i);
    if (!is_new) place->second = images_.size();  // "a" may be a.jpg or a.png
  }
}

const std::string* ImageNames::find(const std::string& name) const {
  const auto same = std::lower_bound(images_.begin(), images_.end(), name);
  if (same != images_.end() && *same == name) return &*same;
  const auto stem = by_stem_.find(name);
  return stem != by_stem_.end() && stem->second < images_.size() ? &images_[stem->second] : nullptr;
}

namespace {

void warn_of_turned(const std::string& folder, const Instances& instances,
                    const std::vector<char>& is_turned) {
  std::set<std::int64_t> with_boxes;
  for (const Annotation& one : instances.annotations) with_boxes.insert(one.image_id);
  std::vector<std::string> turned;
  for (std::size_t i = 0; i < is_turned.size(); ++i) {
    const ImageInfo& image = instances.images[i];
    if (is_turned[i] != 0 && with_boxes.contains(image.id)) turned.push_back(image.file_name);
  }
  if (turned.empty()) return;
  const bool is_one = turned.size() == 1;
  log_warning(folder, ": the EXIF data of ", turned.size(), is_one ? " image" : " images",
              " with boxes say that ", is_one ? "it is" : "they are", " stored turned (",
              first_names(turned), "); ", is_one ? "it is" : "they are",
              " packed as stored, and nothing states which way the boxes are meant: if of the ",
              "upright image, as most tools show it, give --exif apply");
}

}  // namespace

void read_image_sizes(const AnnotationSource& source, Instances& instances) {
  const ImageFolder folder(source.images);
  std::vector<char> is_turned(instances.images.size());
  constexpr std::size_t kBlock = 16;
  const std::size_t block_count = (instances.images.size() + kBlock - 1) / kBlock;
  for_each_parallel(block_count, source.thread_count, [&](std::size_t block) {
    JpegDecoder decoder;
    const std::size_t end = std::min(instances.images.size(), (block + 1) * kBlock);
    for (std::size_t i = block * kBlock; i < end; ++i) {
      ImageInfo& image = instances.images[i];
      if (image.width > 0) continue;
      const LookedAt seen = look_at(folder, image.file_name, decoder);
      if (seen.problem) continue;
      image.width = seen.image.width;
      image.height = seen.image.height;
      is_turned[i] = seen.image.orientation != 1 ? 1 : 0;
      if (source.exif == ExifPolicy::kApply && is_turned_sideways(seen.image.orientation)) {
        std::swap(image.width, image.height);
      }
    }
  });
  if (source.exif == ExifPolicy::kIgnore) warn_of_turned(source.images, instances, is_turned);
}

void scale_shares(Instances& instances) {
  for (Annotation& one : instances.annotations) {
    const ImageInfo& image = instances.images.at(static_cast<std::size_t>(one.image_id) - 1);
    for (const std::size_t i : {0, 2}) {
      one.bbox[i] *= image.width;
      one.bbox[i + 1] *= image.height;
    }
    one.area = one.bbox[2] * one.bbox[3];
  }
}

}  // namespace retina
