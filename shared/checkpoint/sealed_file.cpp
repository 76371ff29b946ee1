#include "shared/checkpoint/sealed_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <string_view>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"

namespace retina {
namespace {

// Part of the format; never change. A zip ends with a 22-byte record whose last two bytes are the
// comment's length (APPNOTE.TXT 4.3.16); ours is kMark and 16 hexadecimal digits.
constexpr std::size_t kEndRecordBytes = 22;
constexpr std::string_view kEndSignature("PK\5\6", 4);
constexpr std::string_view kMark = "retina-xxh3:";
constexpr std::size_t kSealBytes = kMark.size() + 16;

// Passes a zip on and adds the seal. The last bytes are held back: the end record gets its comment
// length only when it is known to be the end.
class SealedStream {
 public:
  explicit SealedStream(AtomicFile& file) : file_(file) {}

  void write(std::string_view bytes) {
    if (bytes.size() < kEndRecordBytes) {
      tail_ += bytes;
      if (tail_.size() <= kEndRecordBytes) return;
      pass(std::string_view(tail_).substr(0, tail_.size() - kEndRecordBytes));
      tail_.erase(0, tail_.size() - kEndRecordBytes);
      return;
    }
    pass(tail_);
    pass(bytes.substr(0, bytes.size() - kEndRecordBytes));
    tail_ = bytes.substr(bytes.size() - kEndRecordBytes);
  }

  std::uint64_t finish() {
    RETINA_CHECK(tail_.size() == kEndRecordBytes && tail_.starts_with(kEndSignature) &&
                     tail_.ends_with(std::string_view("\0\0", 2)),
                 "the stream is not a finished zip");
    tail_[kEndRecordBytes - 2] = static_cast<char>(kSealBytes);
    pass(tail_);
    const std::uint64_t hash = hasher_.digest();
    file_.write(cat(kMark, hex64(hash)));
    return hash;
  }

 private:
  void pass(std::string_view bytes) {
    hasher_.update(bytes.data(), bytes.size());
    file_.write(bytes);
  }
  AtomicFile& file_;
  Hasher hasher_{};
  std::string tail_{};
};

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

std::uint64_t write_sealed(const std::string& path,
                           const std::function<void(const ByteSink&)>& write_zip,
                           const std::function<void(const std::string&)>& verify) {
  AtomicFile file(path);
  SealedStream stream(file);
  std::exception_ptr write_error;
  write_zip([&](const void* bytes, std::size_t size_bytes) {
    try {
      if (!write_error) stream.write({static_cast<const char*>(bytes), size_bytes});
    } catch (...) {
      write_error = std::current_exception();
    }
    return size_bytes;
  });
  if (write_error) std::rethrow_exception(write_error);
  const std::uint64_t hash = stream.finish();
  file.commit([&](const std::string& temporary) {
    check_seal(temporary, "output");
    if (verify) verify(temporary);
  });
  return hash;
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
  // Everything before the seal goes through the hash.
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
  // The seal, compared with it.
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

std::uint64_t read_seal(const std::string& path, const std::string& what) {
  const std::uint64_t size_bytes = file_size_bytes(path);
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rb"));
  std::string seal(kSealBytes, '\0');
  if (!file || size_bytes < kSealBytes ||
      std::fseek(file.get(), -static_cast<long>(kSealBytes), SEEK_END) != 0 ||
      std::fread(seal.data(), 1, seal.size(), file.get()) != seal.size() ||
      !seal.starts_with(kMark)) {
    return check_seal(path, what);  // says what is wrong
  }
  return parse_hex64(std::string_view(seal).substr(kMark.size()), path);
}

}  // namespace retina
