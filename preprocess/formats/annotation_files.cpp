#include "preprocess/formats/annotation_files.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "shared/base/error.h"
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
  throw Error(ErrorKind::kData, cat(at.path, ": line ", at.number, ": ", problem));
}

void require_first(FirstLines& lines, const std::string& text, const FileLine& at,
                   const std::string& what) {
  const auto [first, is_new] = lines.emplace(text, at.number);
  if (!is_new) fail_line(at, cat(what, " already appears on line ", first->second));
}

std::optional<double> number_of(std::string_view text) {
  text = trimmed(text);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

double parse_number(std::string_view text, const char* field, const FileLine& at) {
  const std::optional<double> number = number_of(text);
  if (!number || !std::isfinite(*number)) {
    fail_line(at, cat(field, ": got \"", escaped(trimmed(text)), "\", want a number"));
  }
  return *number;
}

std::vector<std::string> split_csv(std::string_view line, char separator, bool* is_open) {
  std::vector<std::string> fields(1);
  bool quoted = false, begins_quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += line[++i];
    } else if (c == '"') {
      begins_quoted = !quoted && fields.back().empty();
      quoted = !quoted;
    } else if (c == separator && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  if (is_open != nullptr) *is_open = quoted && begins_quoted;
  return fields;
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
