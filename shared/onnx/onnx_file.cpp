#include "shared/onnx/onnx_file.h"

#include <algorithm>
#include <cstring>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/foreign_content.h"
#include "shared/base/hash.h"
#include "shared/onnx/wire.h"

namespace retina {

using namespace onnx_field;

namespace {

// The tag of ModelProto's first field, ir_version.
constexpr std::string_view kBegin = "\x08";
// Part of the format; never change. The entry "retina-xxh3" of metadata_props with 16 digits as its
// value: a message's fields may come in any order, so the last one can be of any kind.
constexpr std::string_view kSealMark("\x72\x1f\x0a\x0bretina-xxh3\x12\x10", 17);

std::string seal_of(std::string_view model) {
  return cat(kSealMark, hex64(xxh3(model)));
}

// Returns true if the file names retina-convert as its producer, its second field.
bool is_of_retina_convert(std::string_view file) {
  constexpr std::size_t kStartBytes = 64;
  return file.substr(0, kStartBytes).find("retina-convert") != std::string_view::npos;
}

}  // namespace

bool is_onnx_file(const std::string& path) {
  return read_start(path, kBegin.size()) == kBegin;
}

void write_onnx_file(const std::string& path, std::string_view model,
                     const std::function<void(const std::string&)>& verify) {
  RETINA_CHECK(model.starts_with(kBegin), "not an ONNX model");
  AtomicFile file(path);
  file.write(model);
  file.write(seal_of(model));
  file.commit([&](const std::string& temporary) {
    check_onnx_seal(read_onnx_file(temporary), temporary);
    if (verify) verify(temporary);
  });
}

std::string read_onnx_file(const std::string& path) {
  constexpr std::uint64_t kMostBytes = (std::uint64_t{2} << 30) + kOnnxSealBytes;
  return read_text(path, kMostBytes);
}

void check_onnx_seal(std::string_view file, const std::string& path) {
  const std::size_t model_bytes = file.size() - std::min(file.size(), kOnnxSealBytes);
  const std::string_view seal = file.substr(model_bytes);
  if (seal == seal_of(file.substr(0, model_bytes))) return;
  if (seal.starts_with(kSealMark) || is_of_retina_convert(file)) {
    throw Error(ErrorKind::kData,
                cat(path, seal.starts_with(kSealMark)
                              ? ": damaged or changed (its hash is not that of its seal)"
                              : ": cut short, or changed by another program (its seal is missing)"),
                "copy the file again, or convert the checkpoint again");
  }
  const auto kind = file_kind(file.substr(0, kKindBytes),
                              file.substr(file.size() - std::min(file.size(), kKindBytes)));
  if (kind) throw Error(ErrorKind::kData, cat(path, ": is ", kind->what), kind->hint);
  throw Error(ErrorKind::kData, cat(path, ": not an inference model of retina-convert"),
              "convert a checkpoint: retina-convert --checkpoint RUN --output MODEL.onnx");
}

InferenceHeader read_inference_header(std::string_view file, const std::string& path) {
  check_onnx_seal(file, path);
  WireReader model(file);
  while (const auto field = model.next()) {
    if (field->number == kModelMetadata &&
        first_field(field->bytes, kEntryKey) == kInferenceHeaderKey) {
      return parse_inference_header(first_field(field->bytes, kEntryValue), path);
    }
  }
  throw Error(ErrorKind::kData, cat(path, ": has no header of an inference model"));
}

InferenceHeader read_inference_header(const std::string& path) {
  return read_inference_header(std::string_view(read_onnx_file(path)), path);
}

bool set_onnx_number(std::string& model, const std::string& name, float number) {
  WireReader graph(first_field(model, kModelGraph));
  while (const auto field = graph.next()) {
    if (field->number != kGraphInitializer || first_field(field->bytes, kTensorName) != name) {
      continue;
    }
    const std::string_view raw = first_field(field->bytes, kTensorRaw);
    if (raw.size() != sizeof number) return false;
    std::memcpy(model.data() + (raw.data() - model.data()), &number, sizeof number);
    return true;
  }
  return false;
}

}  // namespace retina
