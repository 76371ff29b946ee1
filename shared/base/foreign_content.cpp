#include "shared/base/foreign_content.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "shared/base/cat.h"
#include "shared/base/file.h"
#include "shared/base/text_encoding.h"

namespace retina {
namespace {

using namespace std::string_view_literals;

constexpr const char* kDownloadAgain =
    "if it was downloaded, the server answered with this instead of the file: check the link and "
    "whether it wants a login";
constexpr const char* kCopyAgain = "copy or download it again";
constexpr const char* kUnpack = "unpack it and give the file inside";
constexpr const char* kImport =
    "retina-convert --import takes torchvision's weights as torch.save writes them (.pth)";

struct Signature {
  std::string_view bytes;
  const char *what, *hint = "";
  std::size_t offset = 0;
};

constexpr Signature kSignatures[] = {
    {"version https://git-lfs"sv, "a Git LFS pointer", "run `git lfs pull` in its repository"},
    {"\x1F\x8B"sv, "a gzip archive", kUnpack},
    {"PK\x03\x04"sv, "a zip archive", kUnpack},
    {"ustar", "a tar archive", kUnpack, 257},
    {"\xFF\xD8\xFF"sv, "a JPEG image"},
    {"\x89PNG"sv, "a PNG image"},
    {"\x80"sv, "a Python pickle"},
    {"\x93NUMPY"sv, "a NumPy array (.npy)"},
    {"\x89HDF\r\n\x1a\n"sv, "an HDF5 file, as Keras saves weights (.h5)", kImport},
    {"ftyp"sv, "a video", "make images of its frames, as with ffmpeg -i VIDEO FOLDER/%06d.png", 4}};

// Keys, all of which a tool's JSON has.
struct JsonTraits {
  std::array<std::string_view, 2> keys;
  const char *what, *hint;
};

constexpr const char* kExportCoco = "choose COCO as the format of its export";
constexpr const char* kVia =
    "choose COCO as the format of its export, and remove the quotes of each \"image_id\"";
constexpr const char* kGiveInstances =
    "give the instances_*.json of the same download, which has the boxes";

constexpr JsonTraits kJson[] = {
    {{"_via_img_metadata"}, "VGG Image Annotator (VIA)", kVia},
    {{"shape_attributes", "region_attributes"}, "VGG Image Annotator (VIA)", kVia},
    {{"rectanglelabels"}, "Label Studio", kExportCoco},
    {{"imagePath", "shapes"}, "labelme or AnyLabeling, a file for each image", kExportCoco},
    {{"segments_info"}, "COCO's panoptic segmentation", kGiveInstances},
    {{"caption", "image_id"}, "COCO's captions", kGiveInstances},
    {{"neg_category_ids"},
     "LVIS",
     "add a \"file_name\" to each image: the end of its \"coco_url\", as train2017/0.jpg"},
    {{"FeatureCollection", "features"}, "GeoJSON", "coco-pack --format xview reads boxes of it"}};

// Modules in the pickles of other tools.
constexpr std::pair<std::string_view, const char*> kTools[] = {{"ultralytics.", "Ultralytics"},
                                                               {"models.yolo", "YOLOv5"},
                                                               {"mmengine.", "MMDetection"},
                                                               {"mmdet.", "MMDetection"},
                                                               {"detectron2.", "Detectron2"}};

// Recognises safetensors: the header's length in 8 bytes, then the header, a JSON object.
bool is_safetensors(std::string_view begin) {
  return begin.size() > 9 && begin.substr(8).starts_with("{\"") &&
         begin.substr(4, 4) == "\0\0\0\0"sv;  // headers below 4 GiB
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
    return ForeignContent{"a TorchScript model that retina-convert did not write",
                          "in Python: torch.save(torch.jit.load(FILE).state_dict(), "
                          "\"weights.pth\"), then retina-convert --import weights.pth"};
  }
  if (holds("/data.pkl")) {
    return ForeignContent{.what = "a file that torch.save wrote", .is_torch_save = true};
  }
  return foreign_content(begin);
}

}  // namespace

std::optional<ForeignContent> foreign_content(std::string_view start) {
  const auto* known =
      std::find_if(std::begin(kSignatures), std::end(kSignatures), [&](const Signature& one) {
        return start.size() > one.offset && start.substr(one.offset).starts_with(one.bytes);
      });
  if (known != std::end(kSignatures)) return ForeignContent{known->what, known->hint};
  if (const std::string wide = wide_encoding(start); !wide.empty()) {
    return ForeignContent{wide + " text", "save it as UTF-8"};
  }
  // The rest looks like text: empty files, and markup that servers send instead of a file.
  if (start.starts_with("\xEF\xBB\xBF")) start.remove_prefix(3);
  const std::size_t begin = start.find_first_not_of(" \t\r\n\0"sv);
  if (begin == std::string_view::npos) {
    return ForeignContent{start.empty()      ? "an empty file"
                          : start[0] == '\0' ? "nothing but zero bytes"
                                             : "a blank file",
                          kCopyAgain};
  }
  const std::string head = lower_case(start.substr(begin, 14));
  if (head.starts_with("<!doctype html") || head.starts_with("<html")) {
    return ForeignContent{"a web page (HTML)", kDownloadAgain};
  }
  if (head.starts_with("<?xml")) return ForeignContent{"XML", kDownloadAgain};
  return std::nullopt;
}

std::optional<ForeignContent> foreign_json(std::string_view text) {
  const auto has = [&](std::string_view key) {
    return text.find(cat('"', key, "\":")) != std::string_view::npos ||
           text.find(cat('"', key, "\" :")) != std::string_view::npos || key.empty();
  };
  for (const JsonTraits& one : kJson) {
    if (std::all_of(one.keys.begin(), one.keys.end(), has)) return {{one.what, one.hint}};
  }
  return std::nullopt;
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
  const bool is_zip = begin.starts_with("PK\3\4");
  if (is_zip || begin.starts_with("\x80")) {
    if (auto model = foreign_model(begin)) return model;
  }
  if (is_zip) return zip_kind(begin, end);
  if (begin.starts_with(kLegacyStart)) {
    return ForeignContent{.what = "a file that torch.save wrote", .is_torch_save = true};
  }
  if (begin.starts_with("\x80")) {
    return ForeignContent{"a Python pickle, not one that torch.save wrote",
                          "in Python: torch.save(state_dict, \"weights.pth\"), then retina-convert "
                          "--import weights.pth"};
  }
  if (is_safetensors(begin)) {
    return ForeignContent{"a safetensors file",
                          "in Python: torch.save(safetensors.torch.load_file(FILE), "
                          "\"weights.pth\"), then retina-convert --import weights.pth"};
  }
  if (is_onnx(begin)) {
    return ForeignContent{"an ONNX model that retina-convert did not write",
                          "convert the checkpoint or the .pth that it was made from"};
  }
  return foreign_content(begin);
}

std::optional<ForeignContent> file_kind_of(const std::string& path) {
  const std::string begin = read_start(path, kKindBytes);
  if (begin.size() < kKindBytes) return file_kind(begin, begin);
  return file_kind(begin, read_part(path, file_size_bytes(path) - kKindBytes, kKindBytes));
}

}  // namespace retina
