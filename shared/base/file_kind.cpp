#include "shared/base/file_kind.h"

#include <algorithm>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "shared/base/foreign_content.h"

namespace retina {
namespace {

constexpr const char* kImportHint =
    "retina-convert --import takes torchvision's weights as torch.save writes them (.pth)";
constexpr const char* kForeignModelHint =
    "convert the checkpoint or the .pth that it was made from; retina-eval --detections scores "
    "what any model found";

const FileKind kTorchSave{
    .what = "holds weights that torch.save wrote", .hint = "", .is_torch_save = true};

// What is no more weights than it is text.
std::optional<FileKind> other_kind(std::string_view begin) {
  if (const auto foreign = foreign_content(begin)) {
    return FileKind{cat("is ", foreign->what), foreign->cure};
  }
  if (begin.starts_with("{\"") || begin.starts_with("{\n")) return FileKind{"is JSON text", ""};
  return std::nullopt;
}

// safetensors: the header's length in 8 bytes, then the header, a JSON object.
bool is_safetensors(std::string_view begin) {
  constexpr std::size_t kLengthBytes = 8, kMostBytes = 4;  // headers below 4 GiB
  return begin.size() > kLengthBytes + 1 && begin.substr(kLengthBytes).starts_with("{\"") &&
         begin.substr(kMostBytes, kLengthBytes - kMostBytes) == std::string_view("\0\0\0\0", 4);
}

// ModelProto: ir_version (3 to 15 are in use), then the producer's name or the graph.
bool is_onnx(std::string_view begin) {
  return begin.size() > 2 && begin[0] == '\x08' && begin[1] >= 3 && begin[1] <= 15 &&
         (begin[2] == '\x12' || begin[2] == '\x3a');
}

std::optional<FileKind> zip_kind(std::string_view begin, std::string_view end) {
  constexpr std::size_t kEndRecordBytes = 22, kMostCommentBytes = 64;
  const std::size_t record = end.rfind("PK\5\6");
  const bool is_whole = record != std::string_view::npos &&
                        end.size() - record >= kEndRecordBytes &&
                        end.size() - record <= kEndRecordBytes + kMostCommentBytes;
  if (!is_whole) return std::nullopt;
  const auto holds = [&](std::string_view name) {
    return begin.find(name) != std::string_view::npos || end.find(name) != std::string_view::npos;
  };
  if (holds("/retina/index.json")) return std::nullopt;  // a checkpoint
  if (holds("extra/retina.json")) {
    return FileKind{.what = "is a TorchScript model of an earlier retina-convert",
                    .hint =
                        "convert the checkpoint again: retina-convert --checkpoint RUN "
                        "--output MODEL.onnx",
                    .is_old_model = true};
  }
  if (holds("/constants.pkl")) {
    return FileKind{"is a TorchScript model that retina-convert did not write",
                    "in Python: torch.save(torch.jit.load(FILE).state_dict(), \"weights.pth\"), "
                    "then retina-convert --import weights.pth"};
  }
  if (holds("/data.pkl")) return kTorchSave;
  if (holds("model.weights.h5")) return FileKind{"is a Keras model (.keras)", kImportHint};
  if (holds(".npy")) return FileKind{"is a NumPy archive (.npz)", kImportHint};
  return other_kind(begin);
}

}  // namespace

std::optional<FileKind> file_kind(std::string_view begin, std::string_view end) {
  // torch.save before PyTorch 1.6: a pickle of protocol 2 that is one number of 10 bytes.
  constexpr std::string_view kLegacyStart("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46", 8);
  constexpr std::size_t kTfliteMark = 4;
  if (begin.starts_with("PK\3\4")) return zip_kind(begin, end);
  if (begin.starts_with(kLegacyStart)) return kTorchSave;
  if (begin.starts_with("\x80")) {
    return FileKind{"is a Python pickle, not one that torch.save wrote",
                    "in Python: torch.save(state_dict, \"weights.pth\"), then retina-convert "
                    "--import weights.pth"};
  }
  if (begin.starts_with("\x89HDF\r\n\x1a\n")) {
    return FileKind{"is an HDF5 file, as Keras saves weights (.h5)", kImportHint};
  }
  if (is_safetensors(begin)) {
    return FileKind{"is a safetensors file",
                    "in Python: torch.save(safetensors.torch.load_file(FILE), \"weights.pth\"), "
                    "then retina-convert --import weights.pth"};
  }
  if (is_onnx(begin)) {
    return FileKind{"is an ONNX model that retina-convert did not write", kForeignModelHint};
  }
  if (begin.substr(std::min(kTfliteMark, begin.size())).starts_with("TFL3")) {
    return FileKind{"is a TensorFlow Lite model", kForeignModelHint};
  }
  if (begin.starts_with("ftrt") || begin.starts_with("ptrt")) {
    return FileKind{"is a TensorRT engine", kForeignModelHint};
  }
  if (begin.starts_with("\x93NUMPY")) return FileKind{"is a NumPy array (.npy)", kImportHint};
  return other_kind(begin);
}

std::optional<FileKind> file_kind_of(const std::string& path) {
  const std::string begin = read_start(path, kKindBytes);
  if (begin.size() < kKindBytes) return file_kind(begin, begin);
  return file_kind(begin, read_part(path, file_size_bytes(path) - kKindBytes, kKindBytes));
}

}  // namespace retina
