#include "shared/onnx/onnx_file.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/foreign_content.h"
#include "shared/base/hash.h"
#include "shared/base/printable.h"
#include "shared/onnx/wire.h"

namespace retina {

using namespace onnx_field;

namespace {

// The tag of ModelProto's first field, ir_version.
constexpr std::string_view kBegin = "\x08";
// Part of the format; never change. The entry "retina-xxh3" of metadata_props with 16 digits as its
// value: a message's fields may come in any order, so the last one can be of any kind.
constexpr std::string_view kSealMark("\x72\x1f\x0a\x0bretina-xxh3\x12\x10", 17);
constexpr std::size_t kSealDigits = 16;

// Limit of a header: the names of 100,000 classes take a tenth of it.
constexpr std::uint64_t kMostHeaderBytes = 64 << 20;
// Limit of fields; a model of ours has four entries of metadata and five other fields.
constexpr int kMostFields = 64;

// Returns bytes of a file from an offset on, fewer at its end.
using ReadAt = std::function<std::string(std::uint64_t offset_bytes, std::size_t size_bytes)>;

std::optional<std::string_view> field_of(std::string_view message, std::uint32_t number) {
  WireReader reader(message);
  while (const auto field = reader.next()) {
    if (field->number == number) return field->bytes;
  }
  return std::nullopt;
}

// Returns the header's text: walks the model's fields, of which only metadata are read.
std::optional<std::string> header_text(std::uint64_t file_bytes, const ReadAt& read_at) {
  constexpr std::size_t kTagAndLengthBytes = 20;
  std::uint64_t place = 0;
  for (int count = 0; count < kMostFields && place < file_bytes; ++count) {
    const std::string start = read_at(place, kTagAndLengthBytes);
    const std::optional<WireStart> field = wire_start(start);
    if (!field || field->size_bytes > file_bytes - place) return std::nullopt;
    if (field->number == kModelMetadata && field->size_bytes <= kMostHeaderBytes) {
      const std::string entry =
          read_at(place + field->start_bytes, static_cast<std::size_t>(field->length_bytes));
      if (field_of(entry, kEntryKey) == std::string_view(kInferenceHeaderKey)) {
        const auto value = field_of(entry, kEntryValue);
        return value ? std::optional<std::string>(*value) : std::nullopt;
      }
    }
    place += field->size_bytes;
  }
  return std::nullopt;
}

[[noreturn]] void fail_as_not_ours(const std::string& path) {
  throw Error(ErrorKind::kData, cat(path, ": not an inference model of retina-convert"),
              "convert a checkpoint: retina-convert --checkpoint RUN --output MODEL.onnx");
}

std::string seal_of(std::uint64_t hash) {
  return cat(kSealMark, hex64(hash));
}

// Returns what is wrong; empty if the file's last bytes are the seal of a model with this hash.
std::string seal_problem(std::string_view seal, std::uint64_t hash) {
  if (seal == seal_of(hash)) return "";
  if (seal.starts_with(kSealMark)) {
    return cat("damaged or changed (hash got ", hex64(hash), ", want ",
               printable(seal.substr(kSealMark.size())), ")");
  }
  return "cut short, or written by another program than retina-convert (its closing seal is "
         "missing)";
}

void throw_if_broken(const std::string& problem, const std::string& path) {
  if (!problem.empty()) throw Error(ErrorKind::kData, cat(path, ": ", problem), kBrokenSealHint);
}

}  // namespace

bool is_onnx_file(const std::string& path) {
  return read_start(path, kBegin.size()) == kBegin;
}

bool is_of_retina_convert(const std::string& path) {
  constexpr std::size_t kStartBytes = 64;
  return is_onnx_file(path) &&
         read_start(path, kStartBytes).find("retina-convert") != std::string::npos;
}

static_assert(kOnnxSealBytes == kSealMark.size() + kSealDigits);

void write_onnx_file(const std::string& path, std::string_view model,
                     const std::function<void(const std::string&)>& verify) {
  RETINA_CHECK(model.starts_with(kBegin), "not an ONNX model");
  AtomicFile file(path);
  file.write(model);
  file.write(seal_of(xxh3(model)));
  file.commit([&](const std::string& temporary) {
    check_onnx_seal(temporary);
    if (verify) verify(temporary);
  });
}

std::string onnx_seal_problem(std::string_view file) {
  const std::size_t model_bytes = file.size() - std::min(file.size(), kOnnxSealBytes);
  return seal_problem(file.substr(model_bytes), xxh3(file.substr(0, model_bytes)));
}

void check_onnx_seal(std::string_view file, const std::string& path) {
  throw_if_broken(onnx_seal_problem(file), path);
}

void check_onnx_seal(const std::string& path) {
  throw_if_broken(onnx_seal_problem(path), path);
}

HashBeforeEnd hash_before_end(const std::string& path, std::size_t end_bytes) {
  const std::uint64_t file_bytes = file_size_bytes(path);
  std::uint64_t left_bytes = file_bytes - std::min<std::uint64_t>(file_bytes, end_bytes);
  Hasher hasher;
  HashBeforeEnd result;
  read_pieces(path, [&](std::string_view piece) {
    const auto hashed = static_cast<std::size_t>(std::min<std::uint64_t>(left_bytes, piece.size()));
    hasher.update(piece.data(), hashed);
    left_bytes -= hashed;
    result.end += piece.substr(hashed);
  });
  result.hash = hasher.digest();
  return result;
}

std::string onnx_seal_problem(const std::string& path) {
  const auto [hash, seal] = hash_before_end(path, kOnnxSealBytes);
  return seal_problem(seal, hash);
}

InferenceHeader peek_inference_header(const std::string& path) {
  const FileReader file(path);
  const auto read_at = [&](std::uint64_t offset_bytes, std::size_t size_bytes) {
    std::string bytes(size_bytes, '\0');
    bytes.resize(file.read_at(offset_bytes, bytes.data(), bytes.size()));
    return bytes;
  };
  if (const std::optional<std::string> text = header_text(file.size_bytes(), read_at)) {
    return parse_inference_header(*text, path);
  }
  if (const std::optional<FileKind> kind = file_kind_of(path)) {
    throw Error(ErrorKind::kData, cat(path, ": ", kind->what), kind->hint);
  }
  fail_as_not_ours(path);
}

InferenceHeader peek_inference_header(std::string_view file, const std::string& path) {
  const auto read_at = [&](std::uint64_t offset_bytes, std::size_t size_bytes) {
    return std::string(file.substr(static_cast<std::size_t>(offset_bytes), size_bytes));
  };
  const std::optional<std::string> text = header_text(file.size(), read_at);
  if (!text) fail_as_not_ours(path);
  return parse_inference_header(*text, path);
}

InferenceHeader read_inference_header(const std::string& path) {
  InferenceHeader header = peek_inference_header(path);
  check_onnx_seal(path);
  return header;
}

bool set_onnx_number(std::string& model, const std::string& name, float number) {
  const std::optional<std::string_view> graph = field_of(model, kModelGraph);
  if (!graph) return false;
  WireReader reader(*graph);
  while (const auto field = reader.next()) {
    if (field->number != kGraphInitializer || field_of(field->bytes, kTensorName) != name) continue;
    const auto raw = field_of(field->bytes, kTensorRaw);
    if (!raw || raw->size() != sizeof number) return false;
    std::memcpy(model.data() + (raw->data() - model.data()), &number, sizeof number);
    return true;
  }
  return false;
}

}  // namespace retina
