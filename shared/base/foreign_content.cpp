#include "shared/base/foreign_content.h"

#include <algorithm>
#include <cctype>
#include <string>

namespace retina {
namespace {

using namespace std::string_view_literals;

constexpr const char* kDownloadAgain =
    "if it was downloaded, the server answered with this in the place of the file: check the link "
    "and whether it wants a login";
constexpr const char* kCopyAgain = "copy or download it again";
constexpr const char* kSaveAsUtf8 = "save it as UTF-8";
constexpr const char* kUnpack = "unpack it and give the file inside";

struct Signature {
  std::string_view bytes;
  const char* what;
  const char* cure;
};

// The longer one first where two begin alike.
constexpr Signature kSignatures[] = {
    {"version https://git-lfs"sv, "a Git LFS pointer", "run `git lfs pull` in its repository"},
    {"version https://hawser"sv, "a Git LFS pointer", "run `git lfs pull` in its repository"},
    {"outs:\n- md5"sv, "a DVC pointer", "run `dvc pull` in its repository"},
    {"md5: "sv, "a DVC pointer", "run `dvc pull` in its repository"},
    {"\xFF\xFE\0\0"sv, "UTF-32 text", kSaveAsUtf8},
    {"\0\0\xFE\xFF"sv, "UTF-32 text", kSaveAsUtf8},
    {"\xFF\xFE"sv, "UTF-16 text", kSaveAsUtf8},
    {"\xFE\xFF"sv, "UTF-16 text", kSaveAsUtf8},
    {"\x1F\x8B"sv, "a gzip archive", "unpack it (gunzip, or tar -xzf) and give the file inside"},
    {"PK\x03\x04"sv, "a zip archive", kUnpack},
    {"PK\x05\x06"sv, "an empty zip archive", kCopyAgain},
    {"BZh"sv, "a bzip2 archive", kUnpack},
    {"\xFD"
     "7zXZ"sv,
     "an xz archive", kUnpack},
    {"\x28\xB5\x2F\xFD"sv, "a Zstandard archive", kUnpack},
    {"7z\xBC\xAF"sv, "a 7z archive", kUnpack},
    {"Rar!"sv, "a RAR archive", kUnpack},
    {"PAR1"sv, "a Parquet table", "export the annotations as text"},
    {"SQLite format 3"sv, "an SQLite database", "export the annotations as text"},
    {"\xFF\xD8\xFF"sv, "a JPEG image", ""},
    {"\x89PNG"sv, "a PNG image", ""},
    {"%PDF"sv, "a PDF document", ""},
    {"\x7F"
     "ELF"sv,
     "a program", ""}};

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// MP4 and QuickTime, Matroska and WebM, AVI, MPEG. HEIF and AVIF photographs begin as MP4 does.
bool is_video(std::string_view start) {
  const auto has = [&](std::size_t offset, std::string_view bytes) {
    return start.size() > offset && start.substr(offset).starts_with(bytes);
  };
  for (const std::string_view photograph : {"ftyphe", "ftypmif", "ftypmsf", "ftypavi"}) {
    if (has(4, photograph)) return false;
  }
  for (const std::string_view atom : {"ftyp", "moov", "mdat", "wide"}) {
    if (has(4, atom)) return true;
  }
  return has(0, "\x1A\x45\xDF\xA3"sv) || has(0, "\0\0\1\xBA"sv) ||
         (has(0, "RIFF") && has(8, "AVI "));
}

// Without a byte order mark: of the first two characters, one byte each is NUL.
bool is_utf16(std::string_view start) {
  if (start.size() < 4) return false;
  const auto is_nul = [&](std::size_t i) { return start[i] == '\0'; };
  return is_nul(0) != is_nul(1) && is_nul(0) == is_nul(2) && is_nul(1) == is_nul(3);
}

}  // namespace

std::optional<ForeignContent> foreign_content(std::string_view start) {
  for (const Signature& one : kSignatures) {
    if (start.starts_with(one.bytes)) return ForeignContent{.what = one.what, .cure = one.cure};
  }
  constexpr std::size_t kTarMark = 257;
  if (start.substr(std::min(kTarMark, start.size())).starts_with("ustar")) {
    return ForeignContent{.what = "a tar archive",
                          .cure = "unpack it (tar -xf) and give the file inside"};
  }
  if (is_video(start)) {
    return ForeignContent{.what = "a video",
                          .cure =
                              "make images of its frames, such as with ffmpeg -i VIDEO "
                              "FOLDER/%06d.png"};
  }
  if (is_utf16(start)) return ForeignContent{.what = "UTF-16 text", .cure = kSaveAsUtf8};
  if (start.starts_with("\xEF\xBB\xBF")) start.remove_prefix(3);
  const std::size_t begin = start.find_first_not_of(" \t\r\n"sv);
  if (begin == std::string_view::npos) {
    return ForeignContent{.what = start.empty() ? "an empty file" : "a blank file",
                          .cure = kCopyAgain};
  }
  if (start.find_first_not_of('\0') == std::string_view::npos) {
    return ForeignContent{.what = "nothing but zero bytes", .cure = kCopyAgain};
  }
  const std::string head = lower(start.substr(begin, 256));
  if (head.starts_with("<!doctype html") || head.starts_with("<html") ||
      head.starts_with("<head") || head.starts_with("<body")) {
    return ForeignContent{.what = "a web page (HTML)", .cure = kDownloadAgain};
  }
  if (head.starts_with("<?xml")) return ForeignContent{.what = "XML", .cure = kDownloadAgain};
  return std::nullopt;
}

}  // namespace retina
