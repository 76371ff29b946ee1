#include "shared/checkpoint/sealed_file.h"

#include <algorithm>
#include <exception>
#include <string_view>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/foreign_content.h"
#include "shared/base/hash.h"

namespace retina {
namespace {

// Part of the format; never change. A zip ends with a 22-byte record whose last two bytes are the
// comment's length (APPNOTE.TXT 4.3.16); ours is kMark and kDigits hexadecimal digits.
constexpr std::size_t kEndRecordBytes = 22;
constexpr std::string_view kEndSignature("PK\5\6", 4);
constexpr std::string_view kBegin = "PK", kMark = "retina-xxh3:";
constexpr std::size_t kDigits = 16;
constexpr std::size_t kSealBytes = kMark.size() + kDigits;

// Passes a zip on and adds the seal. The last bytes are held back: the end record gets its comment
// length only once it is known to be the end.
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

struct HashAndSeal {
  std::uint64_t hash = 0;  // of all bytes before the seal
  std::string seal{};
};

HashAndSeal hash_and_seal(const std::string& path, std::uint64_t file_bytes) {
  std::uint64_t left_bytes = file_bytes - kSealBytes;
  Hasher hasher;
  HashAndSeal result;
  read_pieces(path, [&](std::string_view piece) {
    const auto hashed = static_cast<std::size_t>(std::min<std::uint64_t>(left_bytes, piece.size()));
    hasher.update(piece.data(), hashed);
    left_bytes -= hashed;
    result.seal += piece.substr(hashed);
  });
  result.hash = hasher.digest();
  return result;
}

// Throws for a file without a seal, naming its kind if that is known, and how to get a file of
// ours.
[[noreturn]] void fail_without_seal(const std::string& path, const std::string& what) {
  const std::string wanted = cat("give a ", what, " of retina-batch");
  const auto kind = file_kind_of(path);
  if (kind && kind->is_torch_save) {
    throw Error(ErrorKind::kData,
                cat(path, ": is ", kind->what, ", not a ", what, " of retina-batch"),
                cat("import it first: retina-convert --import ", path, " --output CHECKPOINT.pt"));
  }
  if (kind) {
    throw Error(ErrorKind::kData, cat(path, ": is ", kind->what),
                kind->hint.empty() ? wanted : kind->hint);
  }
  throw Error(ErrorKind::kData,
              cat(path, ": cut short, or not a ", what, " (its closing seal is missing)"), wanted);
}

}  // namespace

std::uint64_t write_sealed(const std::string& path,
                           const std::function<void(const ByteSink&)>& write_zip) {
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
  file.commit([](const std::string& temporary) { check_seal(temporary, "output"); });
  return hash;
}

std::uint64_t check_seal(const std::string& path, const std::string& what) {
  const std::uint64_t file_bytes = file_size_bytes(path);
  const bool is_zip = read_start(path, kBegin.size()) == kBegin;
  if (!is_zip || file_bytes < kEndRecordBytes + kSealBytes) fail_without_seal(path, what);
  const auto [hash, seal] = hash_and_seal(path, file_bytes);
  if (!seal.starts_with(kMark)) fail_without_seal(path, what);
  if (seal.substr(kMark.size()) != hex64(hash)) {
    throw Error(ErrorKind::kData, cat(path, ": damaged (its hash is not that of its seal)"),
                cat("copy the file again, or use another ", what));
  }
  return hash;
}

std::uint64_t read_seal(const std::string& path, const std::string& what) {
  const FileReader file(path);
  std::string seal(kSealBytes, '\0');
  if (read_start(path, kBegin.size()) != kBegin || file.size_bytes() < kSealBytes ||
      file.read_at(file.size_bytes() - kSealBytes, seal.data(), kSealBytes) != kSealBytes ||
      !seal.starts_with(kMark)) {
    return check_seal(path, what);  // throws the right error
  }
  return parse_hex64(std::string_view(seal).substr(kMark.size()), path);
}

}  // namespace retina
