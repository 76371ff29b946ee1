#include "shared/base/foreign_content.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;
using namespace std::string_literals;

std::string kind_of(const std::string& start) {
  const auto foreign = foreign_content(start);
  return foreign ? foreign->what : "text";
}

TEST(ForeignContent, IsNamedByItsFirstBytes) {
  const std::vector<std::pair<std::string, std::string>> known{
      {"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "a Git LFS pointer"},
      {"outs:\n- md5: 00\n", "a DVC pointer"},
      {"\n <!DOCTYPE html>\n<html>", "a web page (HTML)"},
      {"\xEF\xBB\xBF<html lang=\"en\">", "a web page (HTML)"},
      {"<body>moved</body>", "a web page (HTML)"},
      {"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>", "XML"},
      {"\xFF\xFE{\0"s, "UTF-16 text"},
      {"\xFE\xFF\0{"s, "UTF-16 text"},
      {"{\0\"\0"s, "UTF-16 text"},
      {"\0{\0\""s, "UTF-16 text"},
      {"\xFF\xFE\0\0{\0\0\0"s, "UTF-32 text"},
      {"\x1F\x8B\x08\0"s, "a gzip archive"},
      {"PK\x03\x04", "a zip archive"},
      {"PK\x03\x04" + std::string(26, '\0') + "boxes.npy\x93NUMPY", "a NumPy archive (.npz)"},
      {"\x93NUMPY\1\0"s, "a NumPy array (.npy)"},
      {"\x80\4\x95\0"s, "a Python pickle"},
      {"\0\5\x16\7\0\2"s, "what macOS keeps beside a file (AppleDouble)"},
      {"file" + std::string(253, '\0') + "ustar", "a tar archive"},
      {"\0\0\0\x20"
       "ftypisom"s,
       "a video"},
      {"\0\0\0\x14"
       "ftypqt  "s,
       "a video"},
      {"\x1A\x45\xDF\xA3\x9F"s, "a video"},
      {"RIFF\x24\x10\0\0AVI LIST"s, "a video"},
      {"", "an empty file"},
      {" \r\n\t", "a blank file"},
      {std::string(40, '\0'), "nothing but zero bytes"}};
  for (const auto& [start, what] : known) EXPECT_EQ(kind_of(start), what);
}

// They begin as MP4 does.
TEST(ForeignContent, APhotographInHeifIsNoVideo) {
  for (const char* brand : {"heic", "hevc", "mif1", "avif"}) {
    EXPECT_EQ(kind_of("\0\0\0\x18"
                      "ftyp"s +
                      brand),
              "text")
        << brand;
  }
}

TEST(ForeignContent, TextOfAnyLanguageIsNone) {
  EXPECT_EQ(kind_of("\x08\0\5\0"s), "text") << "a DICOM file, no UTF-16";
  for (const char* text : {"{", "[]", "cat\ndog\n", "<unknown>\ncat\n", "\xE7\x8C\xAB\n", "-1",
                           "version: 1\nnames: [cat]\n"}) {
    EXPECT_EQ(kind_of(text), "text") << text;
  }
}

// The keys are those of files that the tools wrote.
TEST(ForeignJson, IsNamedByItsKeys) {
  const std::vector<std::pair<const char*, const char*>> known{
      {R"({"_via_settings": {}, "_via_img_metadata": {"a.jpg9": {"regions": []}}})", "VIA"},
      {R"({"a.jpg9":{"regions":[{"shape_attributes":{},"region_attributes":{}}]}})", "VIA"},
      {R"([{"image": "a.jpg", "annotations": [{"label": "x", "coordinates": {"x": 1}}]}])",
       "CreateML"},
      {R"([{"id": 1, "annotations": [{"result": [{"value": {"rectanglelabels": ["x"]}}]}]}])",
       "Label Studio"},
      {R"({"version": "5.2.1", "shapes": [], "imagePath": "a.jpg", "imageData": null})", "labelme"},
      {R"({"categories": {"label": {}}, "items": [{"annotations": [{"label_id": 0}]}]})",
       "Datumaro"},
      {R"({"size": {}, "objects": [{"classTitle": "x", "geometryType": "rectangle"}]})",
       "Supervisely"},
      {R"({"annotations": [{"segments_info": [], "file_name": "a.png"}]})", "panoptic"},
      {R"({"annotations": [{"image_id": 1, "id": 2, "caption": "A cat."}]})", "captions"},
      {R"({"images": [{"coco_url": "http://a/b.jpg", "neg_category_ids": []}]})", "LVIS"},
      {R"({"file": {"1": {"fid": "1", "fname": "0.jpg"}}, "metadata": {"1_a": {"vid": "1", "flg": 0,
           "z": [], "xy": [2, 10, 10, 20, 20], "av": {"1": "a"}}}})",
       "version 3"},
      {R"({"samples": [{"filepath": "data/0.jpg", "ground_truth": {"_cls": "Detections"}}]})",
       "FiftyOne"}};
  for (const auto& [text, tool] : known) {
    const auto foreign = foreign_json(text);
    ASSERT_TRUE(foreign) << text;
    EXPECT_THAT(foreign->what, HasSubstr(tool));
    EXPECT_NE(foreign->cure, "") << tool;
  }
  EXPECT_FALSE(foreign_json(R"({"images": [], "annotations": [], "categories":
      [{"id": 1, "name": "caption"}, {"id": 2, "name": "image_id"}]})"))
      << "values are no keys";
}

TEST(ForeignText, IsNamedByItsFirstLine) {
  EXPECT_EQ(foreign_text("file,x1,y1,x2,y2,class\n0.jpg,1,2,3,4,cat\n"), "CSV");
  EXPECT_THAT(foreign_text("0 0.9 10 8 50 48"), HasSubstr("YOLO"));
  for (const char* text : {"[1, 2, 3, 4]", "{\"a\": 1, \"b\": 2, \"c\": 3}", "cat", ""}) {
    EXPECT_EQ(foreign_text(text), "") << text;
  }
}

// Every reader of JSON is one of these two.
TEST(ForeignContent, InThePlaceOfJsonHasItsCure) {
  const TestFolder folder;
  const std::string path = folder / "f.json",
                    pointer = "version https://git-lfs.github.com/spec/v1\n";
  write_file_atomically(path, pointer);
  try {
    JsonFile::read(path);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), path + ": got a Git LFS pointer, want JSON");
    EXPECT_THAT(error.hint(), HasSubstr("git lfs pull"));
  }
  EXPECT_EQ(refusal_of(ErrorKind::kData, [&] { check_foreign_json(pointer, path); }),
            path + ": got a Git LFS pointer, want JSON");
}

// A zip's two ends: a file's header with its name, and the directory's end record.
std::string zip_of(const std::string& name) {
  return std::string("PK\3\4", 4) + std::string(26, '\0') + name + "PK\5\6" + std::string(18, '\0');
}

std::string what_is(const std::string& bytes) {
  const auto kind = file_kind(bytes, bytes);
  return kind ? kind->what : "unknown";
}

TEST(FileKind, NamesWhatDownloadsLeaveInThePlaceOfAFile) {
  for (const std::string& bytes :
       {std::string(), std::string("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n"),
        std::string("<!DOCTYPE html><title>Sign in</title>"), zip_of("README.txt")}) {
    EXPECT_EQ(what_is(bytes), foreign_content(bytes)->what);
  }
  EXPECT_THAT(what_is("\x1f\x8b\x08"), HasSubstr("gzip"));
}

TEST(FileKind, NamesTheToolWhoseClassesAPickleNeeds) {
  for (const auto& [name, tool] :
       {std::pair{"ultralytics.nn.tasks\nDetectionModel", "Ultralytics"},
        {"mmengine.logging.history_buffer\nHistoryBuffer", "MMDetection"},
        {"detectron2.structures.boxes\nBoxes", "Detectron2"}}) {
    for (const std::string& bytes :
         {zip_of(cat("best/data.pkl\x80\x02}c", name)), cat("\x80\x04\x95\x8c", name)}) {
      EXPECT_EQ(what_is(bytes), cat("a model of ", tool, ", which cannot be imported"));
    }
  }
}

TEST(FileKind, NamesWeightsThatOtherToolsWrite) {
  EXPECT_THAT(what_is(zip_of("archive/data.pkl")), HasSubstr("torch.save wrote"));
  EXPECT_TRUE(file_kind(zip_of("w/data.pkl"), zip_of("w/data.pkl"))->is_torch_save);
  EXPECT_THAT(what_is("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\x02M\xe9\x03."),
              HasSubstr("torch.save wrote"));
  EXPECT_THAT(what_is("\x80\x04\x95"), HasSubstr("Python pickle"));
  EXPECT_THAT(what_is(zip_of("m/data.pkl m/constants.pkl")), HasSubstr("TorchScript"));
  EXPECT_THAT(what_is(zip_of("model.weights.h5")), HasSubstr("Keras"));
  EXPECT_THAT(what_is(zip_of("arr_0.npy")), HasSubstr("NumPy"));
  EXPECT_THAT(what_is("\x89HDF\r\n\x1a\n"), HasSubstr("HDF5"));
  EXPECT_THAT(what_is(std::string("\x40\x01\0\0\0\0\0\0{\"conv1.weight\":{", 25)),
              HasSubstr("safetensors"));
  for (const char version : {'\x03', '\x07', '\x08', '\x0a'}) {
    EXPECT_THAT(what_is(std::string{'\x08', version} + "\x12\x07pytorch"), HasSubstr("ONNX"));
  }
  EXPECT_THAT(what_is(std::string("\x1c\0\0\0TFL3", 8)), HasSubstr("TensorFlow Lite"));
}

TEST(FileKind, KnowsTorchScript) {
  EXPECT_THAT(what_is(zip_of("archive/constants.pkl archive/data.pkl")),
              HasSubstr("a TorchScript model"));
}

TEST(FileKind, DoesNotGuess) {
  EXPECT_EQ(what_is("hello"), "unknown");
  const std::string whole = zip_of("archive/data.pkl");
  EXPECT_EQ(what_is(whole.substr(0, whole.size() - 3)), "unknown");  // cut short: whose is it?
  EXPECT_EQ(what_is(zip_of("archive/data.pkl archive/retina/index.json")), "unknown");  // ours
}

TEST(FileKind, SeesBothEndsOfALongFile) {
  const TestFolder folder;
  std::string bytes = zip_of("m/data.pkl");
  bytes.insert(30, std::string(3 * kKindBytes, '\0'));
  write_file_atomically(folder / "f", bytes);
  EXPECT_TRUE(file_kind_of(folder / "f")->is_torch_save);
}

}  // namespace
}  // namespace retina
