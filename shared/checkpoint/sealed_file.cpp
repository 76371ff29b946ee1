#include "shared/checkpoint/sealed_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "shared/base/error.h"

namespace retina {
namespace {

// Part of the format; never change. A zip ends with a 22-byte record whose last two bytes are the
// comment's length (APPNOTE.TXT 4.3.16); ours is kMark and 16 hexadecimal digits.
constexpr std::size_t kEndRecordBytes = 22;
constexpr std::string_view kEndSignature("PK\5\6", 4);
constexpr std::string_view kMark = "retina-xxh3:";
constexpr std::size_t kSealBytes = kMark.size() + 16;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

SealedFile::SealedFile(const std::string& path) : file_(path) {}

void SealedFile::write(const void* data, std::size_t size_bytes) {
  const auto* bytes = static_cast<const char*>(data);
  if (size_bytes < kEndRecordBytes) {
    tail_.append(bytes, size_bytes);
    if (tail_.size() <= kEndRecordBytes) return;
    const std::size_t ready = tail_.size() - kEndRecordBytes;
    hasher_.update(tail_.data(), ready);
    file_.write(tail_.data(), ready);
    tail_.erase(0, ready);
    return;
  }
  const std::size_t ready = size_bytes - kEndRecordBytes;
  for (const std::string_view part : {std::string_view(tail_), std::string_view(bytes, ready)}) {
    hasher_.update(part.data(), part.size());
    file_.write(part);
  }
  tail_.assign(bytes + ready, kEndRecordBytes);
}

std::uint64_t SealedFile::seal() {
  RETINA_CHECK(tail_.size() == kEndRecordBytes && tail_.starts_with(kEndSignature) &&
                   tail_.ends_with(std::string_view("\0\0", 2)),
               "the stream is no finished zip");
  tail_[kEndRecordBytes - 2] = static_cast<char>(kSealBytes);
  hasher_.update(tail_.data(), tail_.size());
  const std::uint64_t hash = hasher_.digest();
  file_.write(tail_);
  file_.write(cat(kMark, hex64(hash)));
  tail_.clear();
  return hash;
}

void SealedFile::commit(const std::function<void(const std::string&)>& verify) {
  file_.commit([&](const std::string& temporary) {
    check_seal(temporary, "output");
    if (verify) verify(temporary);
  });
}

std::uint64_t check_seal(const std::string& path, const std::string& what) {
  const std::uint64_t size_bytes = file_size_bytes(path);
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rb"));
  if (!file) {
    throw Error(ErrorKind::kNoInput, cat(path, ": cannot be read (", std::strerror(errno), ")"),
                "check the path and its permissions");
  }
  const auto fail = [&](const std::string& problem) {
    throw Error(ErrorKind::kData, cat(path, ": ", problem),
                cat("copy the file again, or use another ", what));
  };
  if (size_bytes < kEndRecordBytes + kSealBytes) {
    fail(cat("not a ", what, ", or cut short (got ", size_bytes, " bytes)"));
  }
  Hasher hasher;
  std::vector<char> chunk(1 << 20);
  std::uint64_t left_bytes = size_bytes - kSealBytes;
  bool is_zip = true;
  for (bool first = true; left_bytes > 0; first = false) {
    const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(left_bytes, chunk.size()));
    if (std::fread(chunk.data(), 1, want, file.get()) != want) {
      throw Error(ErrorKind::kIo, cat(path, ": reading failed (", std::strerror(errno), ")"));
    }
    if (first) is_zip = want >= 2 && chunk[0] == 'P' && chunk[1] == 'K';
    hasher.update(chunk.data(), want);
    left_bytes -= want;
  }
  std::string seal(kSealBytes, '\0');
  if (std::fread(seal.data(), 1, seal.size(), file.get()) != seal.size()) {
    throw Error(ErrorKind::kIo, cat(path, ": reading failed (", std::strerror(errno), ")"));
  }
  if (!seal.starts_with(kMark)) {
    fail(is_zip
             ? cat("cut short, or not a ", what, " of retina-batch (its closing seal is missing)")
             : cat("not a ", what, " of retina-batch"));
  }
  const std::uint64_t hash = hasher.digest();
  if (seal.substr(kMark.size()) != hex64(hash)) {
    fail(cat("damaged (hash got ", hex64(hash), ", want ", seal.substr(kMark.size()), ")"));
  }
  return hash;
}

}  // namespace retina
