#include "shared/base/foreign_content.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "shared/base/text_encoding.h"

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

constexpr const char* kGitLfs = "run `git lfs pull` in its repository";
constexpr const char* kDvc = "run `dvc pull` in its repository";
constexpr const char* kExportText = "export the annotations as text";
constexpr const char* kVideo = "a video";
constexpr const char* kImages =
    "make images of its frames, as with ffmpeg -i VIDEO FOLDER/%06d.png";

struct Signature {
  std::string_view bytes;
  const char* what;  // nullptr: known, but not foreign
  const char* cure = "";
  std::size_t offset = 0;
};

// Signatures of files; the longer one first if two begin alike.
constexpr Signature kSignatures[] = {
    {"version https://git-lfs"sv, "a Git LFS pointer", kGitLfs},
    {"version https://hawser"sv, "a Git LFS pointer", kGitLfs},
    {"outs:\n- md5"sv, "a DVC pointer", kDvc},
    {"md5: "sv, "a DVC pointer", kDvc},
    {"\x1F\x8B"sv, "a gzip archive", "unpack it (gunzip, or tar -xzf) and give the file inside"},
    {"PK\x03\x04"sv, "a zip archive", kUnpack},
    {"PK\x05\x06"sv, "an empty zip archive", kCopyAgain},
    {"BZh"sv, "a bzip2 archive", kUnpack},
    {"\3757zXZ", "an xz archive", kUnpack},
    {"\x28\xB5\x2F\xFD"sv, "a Zstandard archive", kUnpack},
    {"7z\xBC\xAF"sv, "a 7z archive", kUnpack},
    {"Rar!"sv, "a RAR archive", kUnpack},
    {"PAR1"sv, "a Parquet table", kExportText},
    {"\0\5\x16\7"sv, "what macOS keeps beside a file (AppleDouble)",
     "give the file whose name lacks the \"._\" in front"},
    {"\x80\2"sv, "a Python pickle"},
    {"\x80\3"sv, "a Python pickle"},
    {"\x80\4"sv, "a Python pickle"},
    {"\x80\5"sv, "a Python pickle"},
    {"\x93NUMPY"sv, "a NumPy array (.npy)"},
    {"SQLite format 3"sv, "an SQLite database", kExportText},
    {"\xFF\xD8\xFF"sv, "a JPEG image"},
    {"\x89PNG"sv, "a PNG image"},
    {"%PDF"sv, "a PDF document"},
    {"\177ELF", "a program"},
    {"ustar", "a tar archive", "unpack it (tar -xf) and give the file inside", 257},
    // HEIF and AVIF photographs begin as MP4 and QuickTime do.
    {"ftyphe", nullptr, "", 4},
    {"ftypmif", nullptr, "", 4},
    {"ftypmsf", nullptr, "", 4},
    {"ftypavi", nullptr, "", 4},
    {"ftyp", kVideo, kImages, 4},
    {"moov", kVideo, kImages, 4},
    {"mdat", kVideo, kImages, 4},
    {"wide", kVideo, kImages, 4},
    {"\x1A\x45\xDF\xA3"sv, kVideo, kImages},  // Matroska and WebM
    {"\0\0\1\xBA"sv, kVideo, kImages},        // MPEG
    {"AVI ", kVideo, kImages, 8}};

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

const ForeignContent kTorchSave{.what = "a file that torch.save wrote", .is_torch_save = true};

// In the place of weights, before kSignatures.
constexpr Signature kWeights[] = {
    {"\x80", "a Python pickle, not one that torch.save wrote",
     "in Python: torch.save(state_dict, \"weights.pth\"), then retina-convert --import "
     "weights.pth"},
    {"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras saves weights (.h5)", kImportHint},
    {"TFL3", "a TensorFlow Lite model", kForeignModelHint, 4},
    {"ftrt", "a TensorRT engine", kForeignModelHint},
    {"ptrt", "a TensorRT engine", kForeignModelHint},
    {"\x93NUMPY", "a NumPy array (.npy)", kImportHint}};

template <std::size_t count>
const Signature* signature_of(const Signature (&known)[count], std::string_view start) {
  const auto found = std::find_if(std::begin(known), std::end(known), [&](const Signature& one) {
    return start.size() > one.offset && start.substr(one.offset).starts_with(one.bytes);
  });
  return found == std::end(known) ? nullptr : found;
}

// Recognises files that are neither text nor weights.
std::optional<ForeignContent> other_kind(std::string_view begin) {
  if (begin.starts_with("{\"") || begin.starts_with("{\n")) return {{.what = "JSON text"}};
  return foreign_content(begin);
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

std::optional<ForeignContent> zip_kind(std::string_view begin, std::string_view end) {
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
    return ForeignContent{
        "a TorchScript model that retina-convert did not write",
        "in Python: torch.save(torch.jit.load(FILE).state_dict(), \"weights.pth\"), "
        "then retina-convert --import weights.pth"};
  }
  if (holds("/data.pkl")) return kTorchSave;
  if (holds("model.weights.h5")) return ForeignContent{"a Keras model (.keras)", kImportHint};
  if (holds(".npy")) return ForeignContent{"a NumPy archive (.npz)", kImportHint};
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
  if (const Signature* known = signature_of(kSignatures, start)) {
    if (known->what == nullptr) return std::nullopt;
    return ForeignContent{.what = known->what, .cure = known->cure};
  }
  if (const std::string wide = wide_encoding(start); !wide.empty()) {
    return ForeignContent{.what = wide.substr(0, 6) + " text", .cure = kSaveAsUtf8};
  }
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
  const std::string head = lower_case(start.substr(begin, 14));
  for (const auto& [tag, what] : {std::pair{"<!doctype html", "a web page (HTML)"},
                                  {"<html", "a web page (HTML)"},
                                  {"<head", "a web page (HTML)"},
                                  {"<body", "a web page (HTML)"},
                                  {"<?xml", "XML"}}) {
    if (head.starts_with(tag)) return ForeignContent{.what = what, .cure = kDownloadAgain};
  }
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

std::optional<ForeignContent> foreign_model(std::string_view pickle) {
  for (const auto& [mark, tool] : kTools) {
    if (pickle.find(mark) == std::string_view::npos) continue;
    return ForeignContent{cat("a model of ", tool, ", which cannot be imported"),
                          "retina-convert --import takes torchvision's RetinaNet and backbones; "
                          "retina-eval --detections scores what any model found"};
  }
  return std::nullopt;
}

std::optional<ForeignContent> file_kind(std::string_view begin, std::string_view end) {
  // torch.save before PyTorch 1.6: a pickle of protocol 2 that is one number of 10 bytes.
  constexpr std::string_view kLegacyStart("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46", 8);
  if (begin.starts_with("PK\3\4") || begin.starts_with("\x80")) {
    if (auto model = foreign_model(begin)) return model;
  }
  if (begin.starts_with("PK\3\4")) return zip_kind(begin, end);
  if (begin.starts_with(kLegacyStart)) return kTorchSave;
  if (is_safetensors(begin)) {
    return ForeignContent{
        "a safetensors file",
        "in Python: torch.save(safetensors.torch.load_file(FILE), \"weights.pth\"), "
        "then retina-convert --import weights.pth"};
  }
  if (is_onnx(begin)) {
    return ForeignContent{"an ONNX model that retina-convert did not write", kForeignModelHint};
  }
  if (const Signature* known = signature_of(kWeights, begin)) {
    return ForeignContent{.what = known->what, .cure = known->cure};
  }
  return other_kind(begin);
}

std::optional<ForeignContent> file_kind_of(const std::string& path) {
  const std::string begin = read_start(path, kKindBytes);
  if (begin.size() < kKindBytes) return file_kind(begin, begin);
  return file_kind(begin, read_part(path, file_size_bytes(path) - kKindBytes, kKindBytes));
}

}  // namespace retina
