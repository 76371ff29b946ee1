#include "shared/checkpoint/foreign/stored_zip.h"

#include <algorithm>
#include <boost/crc.hpp>
#include <cerrno>
#include <deque>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/printable.h"

namespace retina {
namespace {

constexpr std::uint32_t kLocalSignature = 0x04034b50, kEntrySignature = 0x02014b50,
                        kEnd64Signature = 0x06064b50, kLocatorSignature = 0x07064b50;
constexpr std::uint64_t kLocalBytes = 30, kEntryBytes = 46, kEndBytes = 22, kLocatorBytes = 20,
                        kEnd64Bytes = 56, kMaxCommentBytes = 0xffff;
constexpr std::uint64_t kIn64 = 0xffffffff;  // "the number is in the zip64 field"
constexpr std::uint64_t kZip64Field = 1;
constexpr std::uint64_t kEncrypted = 1;

// Returns the little-endian number at `place` of bytes that are long enough.
std::uint64_t number(std::string_view bytes, std::uint64_t place, std::size_t size_bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size_bytes; ++i) {
    const auto byte = static_cast<unsigned char>(bytes[static_cast<std::size_t>(place) + i]);
    value |= static_cast<std::uint64_t>(byte) << (8 * i);
  }
  return value;
}

// Converts to lower case: LibTorch's reader finds names regardless of case.
std::string lower_case(std::string_view name) {
  std::string lower(name);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

// Keeps the pieces that were read of a file; views of them stay valid.
class FileBytes {
 public:
  explicit FileBytes(const std::string& path) : path_(path), file_(path) {}

  std::uint64_t size_bytes() const { return file_.size_bytes(); }

  std::string_view read(std::uint64_t offset, std::uint64_t size_bytes) {
    std::string& bytes = pieces_.emplace_back(static_cast<std::size_t>(size_bytes), '\0');
    if (file_.read_at(offset, bytes.data(), bytes.size()) != bytes.size()) {
      throw read_error(path_, EIO);
    }
    return bytes;
  }

 private:
  std::string path_;
  FileReader file_;
  std::deque<std::string> pieces_{};
};

}  // namespace

std::uint32_t crc32(std::string_view bytes) {
  boost::crc_32_type crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

StoredZip::StoredZip(std::string_view bytes, std::string subject)
    : StoredZip(
          bytes.size(),
          [bytes](std::uint64_t offset, std::uint64_t size_bytes) {
            return bytes.substr(static_cast<std::size_t>(offset),
                                static_cast<std::size_t>(size_bytes));
          },
          std::move(subject)) {}

StoredZip::StoredZip(std::uint64_t file_bytes, Source source, std::string subject)
    : file_bytes_(file_bytes), source_(std::move(source)), subject_(std::move(subject)) {
  read_directory();
}

StoredZip StoredZip::open(const std::string& path) {
  const auto file = std::make_shared<FileBytes>(path);
  return StoredZip(
      file->size_bytes(),
      [file](std::uint64_t offset, std::uint64_t size_bytes) {
        return file->read(offset, size_bytes);
      },
      path);
}

void StoredZip::fail(const std::string& problem) const {
  throw Error(ErrorKind::kData, cat(subject_, ": ", problem), "copy or download the file again");
}

std::string_view StoredZip::slice(std::uint64_t offset, std::uint64_t size_bytes) const {
  if (offset > file_bytes_ || size_bytes > file_bytes_ - offset) {
    fail("damaged: its zip directory points outside the file");
  }
  return source_(offset, size_bytes);
}

// Returns the offset of the record that closes the archive; its comment ends the file. The last
// signature counts, as for LibTorch's reader.
std::uint64_t StoredZip::end_record() const {
  const std::uint64_t tail_bytes = std::min(file_bytes_, kEndBytes + kMaxCommentBytes);
  const std::string_view tail = slice(file_bytes_ - tail_bytes, tail_bytes);
  if (tail.size() >= kEndBytes) {
    const std::size_t place = tail.rfind(std::string_view("PK\5\6", 4),
                                         tail.size() - static_cast<std::size_t>(kEndBytes));
    if (place != std::string_view::npos &&
        number(tail, place + 20, 2) == tail.size() - place - kEndBytes) {
      return file_bytes_ - tail.size() + place;
    }
  }
  fail("cut short: the zip directory at its end is missing");
}

void StoredZip::read_directory() {
  const std::uint64_t end = end_record();
  const std::string_view record = slice(end, kEndBytes);
  std::uint64_t count = number(record, 10, 2), directory_bytes = number(record, 12, 4),
                offset = number(record, 16, 4), directory_end = end;
  bool one_disk = number(record, 4, 4) == 0 && number(record, 8, 2) == count;
  // A zip64 record in front of the end record replaces its numbers.
  if (end >= kLocatorBytes + kEnd64Bytes &&
      number(slice(end - kLocatorBytes, kLocatorBytes), 0, 4) == kLocatorSignature) {
    directory_end = end - kLocatorBytes - kEnd64Bytes;
    const std::string_view record64 = slice(directory_end, kEnd64Bytes);
    if (number(slice(end - kLocatorBytes, kLocatorBytes), 8, 8) != directory_end ||
        number(record64, 0, 4) != kEnd64Signature) {
      fail("damaged: its zip64 record is invalid");
    }
    count = number(record64, 32, 8);
    directory_bytes = number(record64, 40, 8);
    offset = number(record64, 48, 8);
    one_disk = number(record64, 16, 8) == 0 && number(record64, 24, 8) == count;
  }
  // A gap could hide a second directory, which another reader might use.
  if (!one_disk || offset > directory_end || directory_bytes != directory_end - offset) {
    fail("damaged: its zip directory is not where it should be");
  }
  const std::string_view directory = slice(offset, directory_bytes);
  std::uint64_t place = 0;
  for (; count > 0; --count) place = add_entry(directory, place);
  if (place != directory.size()) fail("damaged: its zip directory is too long");

  check_entries();
}

// Checks the entries against each other: each may be fine alone, but not all together.
void StoredZip::check_entries() const {
  std::set<std::string> names;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> places;
  for (const auto& [name, entry] : entries_) {
    if (!names.insert(lower_case(name)).second) {
      fail(cat("two files in its zip have the same name, ", escaped(name)));
    }
    places.emplace_back(entry.offset, entry.size_bytes);
  }
  std::sort(places.begin(), places.end());
  std::uint64_t end = 0;
  for (const auto& [offset, size_bytes] : places) {
    if (offset < end) fail("two files in its zip overlap");
    end = offset + size_bytes;
  }
}

// Adds the directory's entry at `place`; returns where the next begins.
std::uint64_t StoredZip::add_entry(std::string_view directory, std::uint64_t place) {
  // The directory's fields.
  if (place + kEntryBytes > directory.size() || number(directory, place, 4) != kEntrySignature) {
    fail("damaged: an entry of its zip directory is invalid");
  }
  const std::string_view fields = directory.substr(static_cast<std::size_t>(place));
  const std::uint64_t flags = number(fields, 8, 2), method = number(fields, 10, 2);
  std::uint64_t packed = number(fields, 20, 4), size = number(fields, 24, 4);
  const std::uint64_t name_bytes = number(fields, 28, 2), extra_bytes = number(fields, 30, 2);
  std::uint64_t local = number(fields, 42, 4);
  const std::uint64_t entry_end = kEntryBytes + name_bytes + extra_bytes + number(fields, 32, 2);
  if (entry_end > fields.size()) fail("damaged: an entry of its zip directory is cut short");
  const std::string_view name = fields.substr(kEntryBytes, static_cast<std::size_t>(name_bytes));

  // 64-bit numbers replace those that do not fit.
  std::string_view extra = fields.substr(static_cast<std::size_t>(kEntryBytes + name_bytes),
                                         static_cast<std::size_t>(extra_bytes));
  while (extra.size() >= 4) {
    const auto field_bytes =
        static_cast<std::size_t>(std::min<std::uint64_t>(number(extra, 2, 2), extra.size() - 4));
    const std::string_view field = extra.substr(4, field_bytes);
    if (number(extra, 0, 2) == kZip64Field) {
      std::size_t taken = 0;
      for (std::uint64_t* wide : {&size, &packed, &local}) {
        if (*wide != kIn64) continue;
        if (taken + 8 > field.size()) fail("damaged: a zip64 field is cut short");
        *wide = number(field, taken, 8);
        taken += 8;
      }
      break;
    }
    extra.remove_prefix(4 + field_bytes);
  }
  // Compressed and encrypted files are refused.
  if (method != 0 || packed != size) {
    fail(cat("its file ", escaped(name), " is compressed, which PyTorch never does"));
  }
  if ((flags & kEncrypted) != 0) fail("its zip is encrypted");
  // The file's own header, followed by its content.
  const std::string_view header = slice(local, kLocalBytes);
  if (number(header, 0, 4) != kLocalSignature) {
    fail("damaged: a file's header in its zip is invalid");
  }
  const std::uint64_t content = local + kLocalBytes + number(header, 26, 2) + number(header, 28, 2);
  if (content > file_bytes_ || size > file_bytes_ - content) {
    fail(cat("damaged: its file ", escaped(name), " ends outside the zip"));
  }
  const Entry entry{.offset = content,
                    .size_bytes = size,
                    .crc32 = static_cast<std::uint32_t>(number(fields, 16, 4))};
  if (!entries_.emplace(name, entry).second) {
    fail(cat("two files in its zip have the same name, ", escaped(name)));
  }
  return place + entry_end;
}

std::vector<std::string_view> StoredZip::names() const {
  std::vector<std::string_view> all;
  for (const auto& [name, entry] : entries_) all.push_back(name);
  return all;
}

std::string_view StoredZip::read(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) fail(cat("its zip has no file ", escaped(name)));
  const Entry& entry = found->second;
  const std::string_view content = slice(entry.offset, entry.size_bytes);
  if (entry.crc32 != 0 && crc32(content) != entry.crc32) {
    fail(cat("damaged: the CRC-32 of ", escaped(name), " differs"));
  }
  return content;
}

std::string StoredZip::folder_of(std::string_view file) const {
  for (const auto& [name, entry] : entries_) {
    const std::size_t slash = name.find('/');
    if (slash != std::string_view::npos && name.substr(slash + 1) == file) {
      return std::string(name.substr(0, slash + 1));
    }
  }
  fail(cat("is a zip, but not one that torch.save wrote (it holds no ", file, ")"));
}

}  // namespace retina
