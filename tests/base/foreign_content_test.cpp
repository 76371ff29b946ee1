#include "shared/base/foreign_content.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;
using namespace std::string_literals;
using Known = std::vector<std::pair<std::string, const char*>>;

const std::string kPointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\n";

std::string kind_of(const std::string& start) {
  const auto foreign = foreign_content(start);
  return foreign ? foreign->what : "text";
}

TEST(ForeignContent, IsNamedByItsFirstBytes) {
  for (const auto& [start, what] : Known{{kPointer, "Git LFS pointer"},
                                         {"\n <!DOCTYPE html>\n<html>", "web page (HTML)"},
                                         {"\xEF\xBB\xBF<html lang=\"en\">", "web page (HTML)"},
                                         {"<?xml version=\"1.0\"?><Error/>", "XML"},
                                         {"\xFF\xFE{\0"s, "UTF-16 text"},
                                         {"\x1F\x8B\x08\0"s, "gzip"},
                                         {"PK\x03\x04", "zip"},
                                         {"\x80\4\x95\0"s, "pickle"},
                                         {"file" + std::string(253, '\0') + "ustar", "tar"},
                                         {"\0\0\0\x20"s + "ftypisom", "video"},
                                         {"", "empty"},
                                         {" \r\n\t", "blank"},
                                         {std::string(40, '\0'), "zero bytes"}}) {
    EXPECT_THAT(kind_of(start), HasSubstr(what));
  }
  for (const char* text : {"{", "[]", "cat\ndog\n", "<unknown>\ncat\n", "\xE7\x8C\xAB\n", "-1"}) {
    EXPECT_EQ(kind_of(text), "text") << text;
  }
}

// The keys are those of files that the tools wrote.
TEST(ForeignJson, IsNamedByItsKeys) {
  for (const auto& [text, tool] :
       Known{{R"({"_via_settings": {}, "_via_img_metadata": {"a.jpg9": {"regions": []}}})", "VIA"},
             {R"({"a.jpg9":{"regions":[{"shape_attributes":{},"region_attributes":{}}]}})", "VIA"},
             {R"([{"annotations": [{"result": [{"value": {"rectanglelabels": ["x"]}}]}]}])",
              "Label Studio"},
             {R"({"annotations": [{"segments_info": [], "file_name": "a.png"}]})", "panoptic"},
             {R"({"annotations": [{"image_id": 1, "id": 2, "caption": "A cat."}]})", "captions"},
             {R"({"images": [{"coco_url": "http://a/b.jpg", "neg_category_ids": []}]})", "LVIS"}}) {
    const auto foreign = foreign_json(text);
    ASSERT_TRUE(foreign) << text;
    EXPECT_THAT(foreign->what, HasSubstr(tool));
  }
  EXPECT_FALSE(foreign_json(R"({"images": [], "annotations": [], "categories":
      [{"id": 1, "name": "caption"}, {"id": 2, "name": "image_id"}]})"))
      << "values are no keys";
}

TEST(ForeignContent, IsNamedByWhoeverReadsJson) {
  const auto read = [] { JsonFile::parse(kPointer, "f.json"); };
  EXPECT_EQ(refusal_of(ErrorKind::kData, read), "f.json: got a Git LFS pointer, want JSON");
}

// A zip's two ends: a file's header with its name, and the directory's end record.
std::string zip_of(const std::string& name) {
  return std::string("PK\3\4", 4) + std::string(26, '\0') + name + "PK\5\6" + std::string(18, '\0');
}

std::string what_is(const std::string& bytes) {
  const auto kind = file_kind(bytes, bytes);
  return kind ? kind->what : "unknown";
}

TEST(FileKind, NamesWeightsThatOtherToolsWrite) {
  for (const auto& [bytes, what] : Known{
           {zip_of("archive/data.pkl"), "torch.save wrote"},
           {"\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.", "torch.save wrote"},
           {zip_of("archive/constants.pkl archive/data.pkl"), "TorchScript"},
           {zip_of("best/data.pkl\x80\x02}cultralytics.nn.tasks\nDetectionModel"), "Ultralytics"},
           {"\x80\x04\x95\x8cmmengine.logging.history_buffer\nHistoryBuffer", "MMDetection"},
           {"\x80\x04\x95", "pickle"},
           {"\x89HDF\r\n\x1a\n", "HDF5"},
           {"\x40\x01\0\0\0\0\0\0{\"conv1.weight\":{"s, "safetensors"},
           {"\x08\x07\x12\x07pytorch", "ONNX"},
           {zip_of("README.txt"), "zip"},
           {kPointer, "Git LFS"}}) {
    EXPECT_THAT(what_is(bytes), HasSubstr(what));
  }
  EXPECT_TRUE(file_kind(zip_of("w/data.pkl"), zip_of("w/data.pkl"))->is_torch_save);
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
