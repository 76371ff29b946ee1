#include "shared/base/foreign_content.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "shared/base/cat.h"
#include "shared/base/file.h"

namespace retina {
namespace {

using namespace std::string_view_literals;

constexpr const char* kDownloadAgain =
    "if it was downloaded, the server answered with this in the place of the file: check the link "
    "and whether it wants a login";
constexpr const char* kCopyAgain = "copy or download it again";
constexpr const char* kSaveAsUtf8 = "save it as UTF-8";
constexpr const char* kUnpack = "unpack it and give the file inside";
constexpr const char* kExportCoco = "choose COCO as the format of its export";
constexpr const char* kVia =
    "choose COCO as the format of its export, and remove the quotes of each \"image_id\"";
constexpr const char* kExportOther =
    "export or convert it as COCO's JSON, Pascal VOC (coco-pack --format voc) or CSV";
constexpr const char* kGiveInstances =
    "give the instances_*.json of the same download, which has the boxes";

struct Signature {
  std::string_view bytes;
  const char* what;
  const char* cure;
};

// Signatures of files; the longer one first if two begin alike.
constexpr Signature kSignatures[] = {
    {"version https://git-lfs"sv, "a Git LFS pointer", "run `git lfs pull` in its repository"},
    {"version https://hawser"sv, "a Git LFS pointer", "run `git lfs pull` in its repository"},
    {"outs:\n- md5"sv, "a DVC pointer", "run `dvc pull` in its repository"},
    {"md5: "sv, "a DVC pointer", "run `dvc pull` in its repository"},
    {"\xFF\xFE\0\0"sv, "UTF-32 text", kSaveAsUtf8},
    {"\0\0\xFE\xFF"sv, "UTF-32 text", kSaveAsUtf8},
    {"\xFF\xFE"sv, "UTF-16 text", kSaveAsUtf8},
    {"\xFE\xFF"sv, "UTF-16 text", kSaveAsUtf8},
    {"\x1F\x8B"sv, "a gzip archive", "unpack it (gunzip, or tar -xzf) and give the file inside"},
    {"PK\x03\x04"sv, "a zip archive", kUnpack},
    {"PK\x05\x06"sv, "an empty zip archive", kCopyAgain},
    {"BZh"sv, "a bzip2 archive", kUnpack},
    {"\xFD"
     "7zXZ"sv,
     "an xz archive", kUnpack},
    {"\x28\xB5\x2F\xFD"sv, "a Zstandard archive", kUnpack},
    {"7z\xBC\xAF"sv, "a 7z archive", kUnpack},
    {"Rar!"sv, "a RAR archive", kUnpack},
    {"PAR1"sv, "a Parquet table", "export the annotations as text"},
    {"\0\5\x16\7"sv, "what macOS keeps beside a file (AppleDouble)",
     "give the file whose name lacks the \"._\" in front"},
    {"\x80\2"sv, "a Python pickle", ""},
    {"\x80\3"sv, "a Python pickle", ""},
    {"\x80\4"sv, "a Python pickle", ""},
    {"\x80\5"sv, "a Python pickle", ""},
    {"\x93NUMPY"sv, "a NumPy array (.npy)", ""},
    {"SQLite format 3"sv, "an SQLite database", "export the annotations as text"},
    {"\xFF\xD8\xFF"sv, "a JPEG image", ""},
    {"\x89PNG"sv, "a PNG image", ""},
    {"%PDF"sv, "a PDF document", ""},
    {"\x7F"
     "ELF"sv,
     "a program", ""}};

// Keys, all of which a tool's JSON has; the more specific rows first.
struct JsonTraits {
  std::array<std::string_view, 2> keys;
  const char *what, *cure;
};

constexpr JsonTraits kJson[] = {
    {{"_via_img_metadata"}, "VGG Image Annotator (VIA)", kVia},
    {{"shape_attributes", "region_attributes"}, "VGG Image Annotator (VIA)", kVia},
    {{"vid", "xy"}, "VGG Image Annotator (VIA), version 3", kExportOther},
    {{"_cls", "filepath"},
     "FiftyOne",
     "in Python: dataset.export(labels_path=\"coco.json\", "
     "dataset_type=fiftyone.types.COCODetectionDataset)"},
    {{"segments_info"}, "COCO's panoptic segmentation", kGiveInstances},
    {{"caption", "image_id"}, "COCO's captions", kGiveInstances},
    {{"neg_category_ids"},
     "LVIS",
     "add a \"file_name\" to each image: the end of its \"coco_url\", as train2017/0.jpg"},
    {{"FeatureCollection", "features"}, "GeoJSON", "coco-pack --format xview reads boxes of it"},
    {{"rectanglelabels"}, "Label Studio", kExportCoco},
    {{"imagePath", "shapes"}, "labelme or AnyLabeling, a file for each image", kExportOther},
    {{"label_id", "items"}, "Datumaro", "datum convert -f coco_instances makes COCO of it"},
    {{"classTitle"}, "Supervisely", kExportCoco},
    {{"boundingBox", "assets"}, "VoTT", kExportOther},
    {{"box2d", "category"}, "BDD100K", "make COCO of it with python -m bdd100k.label.to_coco"},
    {{"bounding_box", "slots"}, "V7 Darwin", kExportCoco},
    {{"data_row", "projects"}, "Labelbox", kExportCoco},
    {{"relative_coordinates", "frame_id"}, "Darknet's detections", kExportOther},
    {{"coordinates", "annotations"}, "CreateML", kExportCoco}};

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

// Recognises MP4 and QuickTime, Matroska and WebM, AVI, MPEG. HEIF and AVIF photographs begin as
// MP4 does.
bool is_video(std::string_view start) {
  const auto has = [&](std::size_t offset, std::string_view bytes) {
    return start.size() > offset && start.substr(offset).starts_with(bytes);
  };
  for (const std::string_view photograph : {"ftyphe", "ftypmif", "ftypmsf", "ftypavi"}) {
    if (has(4, photograph)) return false;
  }
  for (const std::string_view atom : {"ftyp", "moov", "mdat", "wide"}) {
    if (has(4, atom)) return true;
  }
  return has(0, "\x1A\x45\xDF\xA3"sv) || has(0, "\0\0\1\xBA"sv) ||
         (has(0, "RIFF") && has(8, "AVI "));
}

// Recognises UTF-16 without a byte order mark: of the first two characters, one byte each is NUL,
// and the other is not one with which binary files begin (DICOM: 8, 0, 5, 0).
bool is_utf16(std::string_view start) {
  if (start.size() < 4) return false;
  const auto is_text = [&](std::size_t i) {
    const auto byte = static_cast<unsigned char>(start[i]);
    return byte >= ' ' || byte == '\n' || byte == '\r' || byte == '\t';
  };
  const auto is_low = [&](std::size_t i, std::size_t high) {
    return start[high] == '\0' && start[high + 2] == '\0' && is_text(i) && is_text(i + 2);
  };
  return is_low(0, 1) || is_low(1, 0);
}

constexpr const char* kImportHint =
    "retina-convert --import takes torchvision's weights as torch.save writes them (.pth)";
constexpr const char* kForeignModelHint =
    "convert the checkpoint or the .pth that it was made from; retina-eval --detections scores "
    "what any model found";

// Modules and names in the pickles of other tools.
constexpr std::pair<std::string_view, const char*> kTools[] = {
    {"ultralytics.", "Ultralytics"},
    {"models.yolo", "YOLOv5 or YOLOv7"},
    {"yolox.", "YOLOX"},
    {"mmengine.", "MMDetection"},
    {"mmdet.", "MMDetection"},
    {"detectron2.", "Detectron2"},
    {"matching_heuristics", "Detectron2"},
    {"transformers.", "Hugging Face's transformers"}};

const FileKind kTorchSave{
    .what = "holds weights that torch.save wrote", .hint = "", .is_torch_save = true};

struct WeightsSignature {
  std::size_t offset;
  std::string_view bytes;
  const char *what, *hint;
};

constexpr WeightsSignature kWeights[] = {
    {0, "\x80", "is a Python pickle, not one that torch.save wrote",
     "in Python: torch.save(state_dict, \"weights.pth\"), then retina-convert --import "
     "weights.pth"},
    {0, "\x89HDF\r\n\x1a\n", "is an HDF5 file, as Keras saves weights (.h5)", kImportHint},
    {4, "TFL3", "is a TensorFlow Lite model", kForeignModelHint},
    {0, "ftrt", "is a TensorRT engine", kForeignModelHint},
    {0, "ptrt", "is a TensorRT engine", kForeignModelHint},
    {0, "\x93NUMPY", "is a NumPy array (.npy)", kImportHint}};

// Recognises files that are neither text nor weights.
std::optional<FileKind> other_kind(std::string_view begin) {
  if (const auto foreign = foreign_content(begin)) {
    return FileKind{cat("is ", foreign->what), foreign->cure};
  }
  if (begin.starts_with("{\"") || begin.starts_with("{\n")) return FileKind{"is JSON text", ""};
  return std::nullopt;
}

// Recognises safetensors: the header's length in 8 bytes, then the header, a JSON object.
bool is_safetensors(std::string_view begin) {
  constexpr std::size_t kLengthBytes = 8, kMostBytes = 4;  // headers below 4 GiB
  return begin.size() > kLengthBytes + 1 && begin.substr(kLengthBytes).starts_with("{\"") &&
         begin.substr(kMostBytes, kLengthBytes - kMostBytes) == std::string_view("\0\0\0\0", 4);
}

// Recognises an ONNX ModelProto: ir_version (3 to 15 are in use), then the producer's name or the
// graph.
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
  if (holds("/retina/index.json")) return std::nullopt;  // one of our checkpoints
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

std::optional<ForeignContent> foreign_content(std::string_view start) {
  constexpr std::size_t kNameInZip = 30, kMostNameBytes = 100;
  // A .npz is a zip, so it must be recognised before the signatures.
  if (start.starts_with("PK\3\4") && start.size() > kNameInZip &&
      start.substr(kNameInZip, kMostNameBytes).find(".npy") != std::string_view::npos) {
    return ForeignContent{.what = "a NumPy archive (.npz)"};
  }
  for (const Signature& one : kSignatures) {
    if (start.starts_with(one.bytes)) return ForeignContent{.what = one.what, .cure = one.cure};
  }
  // Formats without a signature at the start.
  constexpr std::size_t kTarMark = 257;
  if (start.substr(std::min(kTarMark, start.size())).starts_with("ustar")) {
    return ForeignContent{.what = "a tar archive",
                          .cure = "unpack it (tar -xf) and give the file inside"};
  }
  if (is_video(start)) {
    return ForeignContent{.what = "a video",
                          .cure =
                              "make images of its frames, such as with ffmpeg -i VIDEO "
                              "FOLDER/%06d.png"};
  }
  if (is_utf16(start)) return ForeignContent{.what = "UTF-16 text", .cure = kSaveAsUtf8};
  // The rest looks like text: empty files, and markup that servers send instead of a file.
  if (start.starts_with("\xEF\xBB\xBF")) start.remove_prefix(3);
  const std::size_t begin = start.find_first_not_of(" \t\r\n"sv);
  if (begin == std::string_view::npos) {
    return ForeignContent{.what = start.empty() ? "an empty file" : "a blank file",
                          .cure = kCopyAgain};
  }
  if (start.find_first_not_of('\0') == std::string_view::npos) {
    return ForeignContent{.what = "nothing but zero bytes", .cure = kCopyAgain};
  }
  const std::string head = lower(start.substr(begin, 256));
  if (head.starts_with("<!doctype html") || head.starts_with("<html") ||
      head.starts_with("<head") || head.starts_with("<body")) {
    return ForeignContent{.what = "a web page (HTML)", .cure = kDownloadAgain};
  }
  if (head.starts_with("<?xml")) return ForeignContent{.what = "XML", .cure = kDownloadAgain};
  return std::nullopt;
}

std::optional<ForeignContent> foreign_json(std::string_view text) {
  const auto has = [&](std::string_view key) {
    return text.find(cat('"', key, "\":")) != std::string_view::npos ||
           text.find(cat('"', key, "\" :")) != std::string_view::npos || key.empty();
  };
  for (const JsonTraits& one : kJson) {
    if (std::all_of(one.keys.begin(), one.keys.end(), has)) {
      return ForeignContent{.what = one.what, .cure = one.cure};
    }
  }
  return std::nullopt;
}

std::string foreign_text(std::string_view start) {
  const std::string line(start.substr(0, start.find_first_of("\r\n")));
  if (name_matches(line, "[^][{}]*,[^][{}]*,[^][{}]*")) return "CSV";
  if (name_matches(line, "[^ ]+( +-?[0-9][0-9.e-]*){4,}")) return "numbers, as YOLO writes labels";
  return "";
}

std::optional<FileKind> foreign_model(std::string_view pickle) {
  for (const auto& [mark, tool] : kTools) {
    if (pickle.find(mark) == std::string_view::npos) continue;
    return FileKind{cat("is a model of ", tool, ", which cannot be imported"),
                    "retina-convert --import takes torchvision's RetinaNet and backbones; "
                    "retina-eval --detections scores what any model found"};
  }
  return std::nullopt;
}

std::optional<FileKind> file_kind(std::string_view begin, std::string_view end) {
  // torch.save before PyTorch 1.6: a pickle of protocol 2 that is one number of 10 bytes.
  constexpr std::string_view kLegacyStart("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46", 8);
  if (begin.starts_with("PK\3\4") || begin.starts_with("\x80")) {
    if (auto model = foreign_model(begin)) return model;
  }
  if (begin.starts_with("PK\3\4")) return zip_kind(begin, end);
  if (begin.starts_with(kLegacyStart)) return kTorchSave;
  if (is_safetensors(begin)) {
    return FileKind{"is a safetensors file",
                    "in Python: torch.save(safetensors.torch.load_file(FILE), \"weights.pth\"), "
                    "then retina-convert --import weights.pth"};
  }
  if (is_onnx(begin)) {
    return FileKind{"is an ONNX model that retina-convert did not write", kForeignModelHint};
  }
  for (const WeightsSignature& one : kWeights) {
    if (begin.substr(std::min(one.offset, begin.size())).starts_with(one.bytes)) {
      return FileKind{one.what, one.hint};
    }
  }
  return other_kind(begin);
}

std::optional<FileKind> file_kind_of(const std::string& path) {
  const std::string begin = read_start(path, kKindBytes);
  if (begin.size() < kKindBytes) return file_kind(begin, begin);
  return file_kind(begin, read_part(path, file_size_bytes(path) - kKindBytes, kKindBytes));
}

}  // namespace retina
