#include "shared/checkpoint/sealed_file.h"

#include <exception>
#include <optional>
#include <string_view>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/foreign_content.h"
#include "shared/base/hash.h"
#include "shared/onnx/onnx_file.h"

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

// Throws if the file is of a known foreign kind, naming the kind and how to get a file of ours.
void fail_as_known(const std::string& path, const std::string& what) {
  const std::optional<FileKind> kind = file_kind_of(path);
  if (!kind) return;
  throw Error(ErrorKind::kData,
              cat(path, ": ", kind->what, kind->is_torch_save ? cat(", not a ", what) : "",
                  kind->is_torch_save ? " of retina-batch" : ""),
              kind->is_torch_save  ? cat("import it first: retina-convert --import ", path,
                                         " --output CHECKPOINT.pt")
              : kind->hint.empty() ? cat("give a ", what, " of retina-batch")
                                   : kind->hint);
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
  const auto fail = [&](const std::string& problem) {
    throw Error(ErrorKind::kData, cat(path, ": ", problem),
                cat("copy the file again, or use another ", what));
  };
  const std::uint64_t size_bytes = file_size_bytes(path);
  const bool is_zip = read_start(path, kBegin.size()) == kBegin;
  if (!is_zip || size_bytes < kEndRecordBytes + kSealBytes) {
    fail_as_known(path, what);
    fail(is_zip ? cat("not a ", what, ", or cut short (got ", size_bytes, " bytes)")
                : cat("not a ", what, " of retina-batch"));
  }
  const auto [hash, seal] = hash_before_end(path, kSealBytes);
  if (!seal.starts_with(kMark)) {
    fail_as_known(path, what);
    fail(cat("cut short, or not a ", what, " of retina-batch (its closing seal is missing)"));
  }
  const std::string wanted = seal.substr(kMark.size());
  if (wanted != hex64(hash)) fail(cat("damaged (hash got ", hex64(hash), ", want ", wanted, ")"));
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
