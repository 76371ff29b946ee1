#include "preprocess/formats/annotation_files.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <sstream>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/exact_number.h"
#include "shared/base/file.h"
#include "shared/base/printable.h"

namespace retina {
namespace {

// The largest table that people train on, Open Images' 14.6 million boxes, has 2.3 GB.
constexpr std::uint64_t kMostTableBytes = std::uint64_t{8} << 30;

}  // namespace

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

void AnnotationFiles::add_file(const std::string& path, const std::string& name) {
  const std::string digest = hex64(xxh3_file(path));
  add(name, digest);
  size_bytes_ += file_size_bytes(path) - digest.size();
}

std::vector<TextLine> AnnotationFiles::read_lines(const std::string& path,
                                                  const std::string& name) {
  const std::string text = read(path, name, EncodingIn::kNothing);
  require_utf8(text, path);
  std::vector<TextLine> lines;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of("\r\n", begin), text.size());
    std::string line = text.substr(begin, end - begin);
    begin = end + (std::string_view(text).substr(end).starts_with("\r\n") ? 2 : 1);
    ++number;
    if (!trimmed(line).empty()) lines.push_back({.text = std::move(line), .number = number});
  }
  return lines;
}

void fail_line(const FileLine& at, const std::string& problem) {
  throw Error(ErrorKind::kData,
              cat(at.path, at.number > 0 ? cat(": line ", at.number) : "", ": ", problem));
}

void require_first(FirstLines& lines, const std::string& text, const FileLine& at,
                   const std::string& what) {
  const auto [first, is_new] = lines.emplace(text, at.number);
  if (!is_new) fail_line(at, cat(what, " already appears on line ", first->second));
}

std::optional<double> number_of(std::string_view text) {
  return exact_number<double>(trimmed(text));
}

double parse_number(std::string_view text, const char* field, const FileLine& at) {
  const std::optional<double> number = number_of(text);
  if (!number || !std::isfinite(*number)) {
    fail_line(at, cat(field, ": got \"", escaped(trimmed(text)), "\", want a number"));
  }
  return *number;
}

std::int64_t parse_whole(std::string_view text, const char* field, const FileLine& at,
                         std::int64_t least) {
  const double number = parse_number(text, field, at);
  if (number < static_cast<double>(least) || number > 1e9 || number != std::floor(number)) {
    fail_line(at, cat(field, ": got ", escaped(trimmed(text)), ", want a whole number",
                      least == 0 ? ", 0 or more" : ""));
  }
  return static_cast<std::int64_t>(number);
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

std::vector<std::string> words_of(std::string_view text) {
  std::istringstream each{std::string(text)};
  return {std::istream_iterator<std::string>(each), {}};
}

Box box_around(const std::vector<double>& points) {
  std::array<double, 2> low{points[0], points[1]}, high = low;
  for (std::size_t i = 2; i < points.size(); ++i) {
    low[i % 2] = std::min(low[i % 2], points[i]);
    high[i % 2] = std::max(high[i % 2], points[i]);
  }
  return {low[0], low[1], high[0] - low[0], high[1] - low[1]};
}

void add_image(Instances& to, ImageInfo image) {
  image.id = std::ssize(to.images) + 1;
  to.images.push_back(std::move(image));
}

Annotation& add_box(Instances& to, const Box& box, std::int64_t category_id) {
  return to.annotations.emplace_back(Annotation{.id = std::ssize(to.annotations) + 1,
                                                .image_id = to.images.back().id,
                                                .category_id = category_id,
                                                .bbox = box,
                                                .area = box[2] * box[3]});
}

std::string first_names(const std::vector<std::string>& names) {
  constexpr std::size_t kNamed = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(kNamed, names.size()); ++i) {
    text += cat(i == 0 ? "" : ", ", escaped(names[i]));
  }
  return text + (names.size() > kNamed ? ", ..." : "");
}

std::string first_counts(const std::map<std::string, std::int64_t>& counts) {
  std::vector<std::string> names;
  for (const auto& [name, count] : counts) names.push_back(cat(name, " ", count));
  return first_names(names);
}

}  // namespace retina
