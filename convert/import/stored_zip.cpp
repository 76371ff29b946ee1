#include "convert/import/stored_zip.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/printable.h"

namespace retina {
namespace {

constexpr std::uint32_t kLocalSignature = 0x04034b50, kEntrySignature = 0x02014b50,
                        kEndSignature = 0x06054b50, kEnd64Signature = 0x06064b50,
                        kLocatorSignature = 0x07064b50;
constexpr std::uint64_t kLocalBytes = 30, kEntryBytes = 46, kEndBytes = 22, kLocatorBytes = 20,
                        kEnd64Bytes = 56, kMaxCommentBytes = 0xffff;
constexpr std::uint64_t kIn64 = 0xffffffff;  // "the number is in the zip64 field"
constexpr std::uint64_t kZip64Field = 1;
constexpr std::uint64_t kEncrypted = 1;
constexpr std::size_t kSlices = 8;

using CrcTables = std::array<std::array<std::uint32_t, 256>, kSlices>;

// Slicing-by-8 (Kounavis and Berry 2005): table k is the effect of a byte k places further on.
constexpr CrcTables make_crc_tables() {
  CrcTables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320U : 0U);
    tables[0][byte] = crc;
  }
  for (std::size_t slice = 1; slice < kSlices; ++slice) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[slice - 1][byte];
      tables[slice][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr CrcTables kCrcTables = make_crc_tables();

}  // namespace

std::uint32_t crc32(std::string_view bytes) {
  std::uint32_t crc = 0xffffffffU;
  while (bytes.size() >= kSlices) {
    std::uint32_t mixed = 0;
    for (std::size_t i = 0; i < kSlices; ++i) {
      const auto byte = static_cast<unsigned char>(bytes[i]);
      const std::uint32_t index = i < 4 ? (byte ^ (crc >> (8 * i))) & 0xff : byte;
      mixed ^= kCrcTables[kSlices - 1 - i][index];
    }
    crc = mixed;
    bytes.remove_prefix(kSlices);
  }
  for (const char c : bytes) {
    crc = (crc >> 8) ^ kCrcTables[0][(crc ^ static_cast<unsigned char>(c)) & 0xff];
  }
  return ~crc;
}

StoredZip::StoredZip(std::string_view bytes, std::string subject)
    : bytes_(bytes), subject_(std::move(subject)) {
  read_directory();
}

void StoredZip::fail(const std::string& problem) const {
  throw Error(ErrorKind::kData, cat(subject_, ": ", problem), "copy or download the file again");
}

std::string_view StoredZip::slice(std::uint64_t offset, std::uint64_t size_bytes) const {
  if (offset > bytes_.size() || size_bytes > bytes_.size() - offset) {
    fail("damaged: its zip directory points outside of the file");
  }
  return bytes_.substr(static_cast<std::size_t>(offset), static_cast<std::size_t>(size_bytes));
}

std::uint64_t StoredZip::number(std::uint64_t offset, std::size_t size_bytes) const {
  const std::string_view digits = slice(offset, size_bytes);
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size_bytes; ++i) {
    value |= static_cast<std::uint64_t>(static_cast<unsigned char>(digits[i])) << (8 * i);
  }
  return value;
}

// Offset of the record that closes the archive; its comment ends the file.
std::uint64_t StoredZip::end_record() const {
  if (bytes_.size() >= kEndBytes) {
    const std::uint64_t last = bytes_.size() - kEndBytes;
    const std::uint64_t first = last - std::min(last, kMaxCommentBytes);
    for (std::uint64_t offset = last + 1; offset-- > first;) {
      if (number(offset, 4) == kEndSignature && number(offset + 20, 2) == last - offset) {
        return offset;
      }
    }
  }
  fail("cut short: the zip directory at its end is missing");
}

void StoredZip::read_directory() {
  const std::uint64_t end = end_record();
  std::uint64_t count = number(end + 10, 2), offset = number(end + 16, 4);
  if (end >= kLocatorBytes && number(end - kLocatorBytes, 4) == kLocatorSignature) {
    const std::uint64_t end64 = number(end - kLocatorBytes + 8, 8);
    slice(end64, kEnd64Bytes);
    if (number(end64, 4) != kEnd64Signature) fail("damaged: its zip64 record is none");
    count = number(end64 + 32, 8);
    offset = number(end64 + 48, 8);
  }
  if (count > bytes_.size() / kEntryBytes) fail("damaged: its zip directory is too long");
  for (; count > 0; --count) offset = add_entry(offset);
}

// Takes the directory's entry at `offset`; returns where the next begins.
std::uint64_t StoredZip::add_entry(std::uint64_t offset) {
  slice(offset, kEntryBytes);
  if (number(offset, 4) != kEntrySignature) fail("damaged: an entry of its zip directory is none");
  const std::uint64_t flags = number(offset + 8, 2), method = number(offset + 10, 2);
  std::uint64_t packed = number(offset + 20, 4), size = number(offset + 24, 4);
  const std::uint64_t name_bytes = number(offset + 28, 2), extra_bytes = number(offset + 30, 2);
  std::uint64_t local = number(offset + 42, 4);
  const std::string_view name = slice(offset + kEntryBytes, name_bytes);

  const std::uint64_t extra = offset + kEntryBytes + name_bytes, extra_end = extra + extra_bytes;
  for (std::uint64_t field = extra; field + 4 <= extra_end;) {
    const std::uint64_t field_end = field + 4 + number(field + 2, 2);
    if (number(field, 2) == kZip64Field) {
      std::uint64_t place = field + 4;
      for (std::uint64_t* wide : {&size, &packed, &local}) {
        if (*wide != kIn64) continue;
        *wide = number(place, 8);
        place += 8;
      }
    }
    field = field_end;
  }
  if (method != 0 || packed != size) {
    fail("its zip is compressed, which torch.save never does");
  }
  if ((flags & kEncrypted) != 0) fail("its zip is encrypted");
  slice(local, kLocalBytes);
  if (number(local, 4) != kLocalSignature) fail("damaged: a file's header in its zip is none");
  const std::uint64_t content = local + kLocalBytes + number(local + 26, 2) + number(local + 28, 2);
  const Entry entry{.content = slice(content, size),
                    .crc32 = static_cast<std::uint32_t>(number(offset + 16, 4))};
  if (!entries_.emplace(name, entry).second) fail("damaged: two files of its zip have one name");
  return extra_end + number(offset + 32, 2);
}

std::string_view StoredZip::read(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) fail(cat("its zip has no file ", printable(name)));
  const Entry& entry = found->second;
  if (entry.crc32 != 0 && crc32(entry.content) != entry.crc32) {
    fail(cat("damaged: the CRC-32 of ", printable(name), " differs"));
  }
  return entry.content;
}

std::string StoredZip::folder_of(std::string_view file) const {
  for (const auto& [name, entry] : entries_) {
    const std::size_t slash = name.find('/');
    if (slash != std::string_view::npos && name.substr(slash + 1) == file) {
      return std::string(name.substr(0, slash + 1));
    }
  }
  fail(cat("is a zip, but not of torch.save (it holds no ", file, ")"));
}

}  // namespace retina
