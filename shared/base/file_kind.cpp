#include "shared/base/file_kind.h"

#include <algorithm>

#include "shared/base/file.h"

namespace retina {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF", kSpace = " \t\r\n";
constexpr const char* kImportHint =
    "retina-convert --import takes torchvision's weights as torch.save writes them (.pth)";
constexpr const char* kForeignModelHint =
    "convert the checkpoint or the .pth that it was made from; retina-eval --detections scores "
    "what any model found";

const FileKind kTorchSave{
    .what = "holds weights that torch.save wrote", .hint = "", .is_torch_save = true};

// The start of a text, white space and a byte order mark skipped, in lower case.
std::string text_start(std::string_view begin) {
  constexpr std::size_t kStart = 64;
  if (begin.starts_with(kByteOrderMark)) begin.remove_prefix(kByteOrderMark.size());
  begin.remove_prefix(std::min(begin.find_first_not_of(kSpace), begin.size()));
  std::string start(begin.substr(0, kStart));
  for (char& c : start) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return start;
}

std::optional<FileKind> text_kind(std::string_view begin) {
  const std::string start = text_start(begin);
  if (start.starts_with("version https://git-lfs.github.com/spec/")) {
    return FileKind{"is a Git LFS pointer, not the file itself", "fetch the file: git lfs pull"};
  }
  for (const char* mark : {"<!doctype html", "<html", "<head", "<body"}) {
    if (!start.starts_with(mark)) continue;
    return FileKind{"is an HTML page, not the file itself",
                    "download the file again: the server sent a page in its place"};
  }
  if (start.starts_with("<?xml")) return FileKind{"is an XML document", ""};
  if (start.starts_with("{\"") || start.starts_with("{\n")) return FileKind{"is JSON text", ""};
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
  if (holds("/retina/index.json") || holds("extra/retina.json")) return std::nullopt;  // ours
  if (holds("/constants.pkl")) {
    return FileKind{"is a TorchScript model that retina-convert did not write",
                    "in Python: torch.save(torch.jit.load(FILE).state_dict(), \"weights.pth\"), "
                    "then retina-convert --import weights.pth"};
  }
  if (holds("/data.pkl")) return kTorchSave;
  if (holds("model.weights.h5")) return FileKind{"is a Keras model (.keras)", kImportHint};
  if (holds(".npy")) return FileKind{"is a NumPy archive (.npz)", kImportHint};
  return FileKind{"is a zip archive", "unpack it first"};
}

}  // namespace

std::optional<FileKind> file_kind(std::string_view begin, std::string_view end) {
  // torch.save before PyTorch 1.6: a pickle of protocol 2 that is one number of 10 bytes.
  constexpr std::string_view kLegacyStart("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46", 8);
  constexpr std::size_t kTarMark = 257, kTfliteMark = 4;
  if (begin.empty()) return FileKind{"is empty", "copy or download the file again"};
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
  if (begin.starts_with("\x1f\x8b")) {
    return FileKind{"is compressed by gzip", "unpack it first: gunzip, or tar -xzf"};
  }
  if (begin.substr(std::min(kTarMark, begin.size())).starts_with("ustar")) {
    return FileKind{
        "is a tar archive",
        "unpack it first: tar -xf; what PyTorch 0.1 wrote, load in Python and save it again"};
  }
  return text_kind(begin);
}

std::optional<FileKind> file_kind_of(const std::string& path) {
  const std::string begin = read_start(path, kKindBytes);
  if (begin.size() < kKindBytes) return file_kind(begin, begin);
  return file_kind(begin, read_part(path, file_size_bytes(path) - kKindBytes, kKindBytes));
}

}  // namespace retina
