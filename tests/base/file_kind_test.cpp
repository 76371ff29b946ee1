#include "shared/base/file_kind.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shared/base/file.h"
#include "shared/base/foreign_content.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;

// A zip's two ends: a file's header with its name, and the directory's end record.
std::string zip_of(const std::string& name) {
  return std::string("PK\3\4", 4) + std::string(26, '\0') + name + "PK\5\6" + std::string(18, '\0');
}

std::string what_is(const std::string& bytes) {
  const std::optional<FileKind> kind = file_kind(bytes, bytes);
  return kind ? kind->what : "unknown";
}

TEST(FileKind, NamesWhatDownloadsLeaveInThePlaceOfAFile) {
  for (const std::string& bytes :
       {std::string(), std::string("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\n"),
        std::string("<!DOCTYPE html><title>Sign in</title>"), zip_of("README.txt")}) {
    EXPECT_EQ(what_is(bytes), "is " + foreign_content(bytes)->what);
  }
  EXPECT_THAT(what_is("\x1f\x8b\x08"), HasSubstr("gzip"));
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

TEST(FileKind, KnowsTheModelsOfEarlierVersionsFromOtherTorchScript) {
  const std::string old = zip_of("archive/constants.pkl archive/extra/retina.json");
  const FileKind kind = file_kind(old, old).value();
  EXPECT_TRUE(kind.is_old_model);
  EXPECT_EQ(kind.what, "is a TorchScript model of an earlier retina-convert");
  EXPECT_THAT(kind.hint, HasSubstr("retina-convert --checkpoint RUN --output MODEL.onnx"));
  const std::string other = zip_of("archive/constants.pkl archive/data.pkl");
  EXPECT_FALSE(file_kind(other, other)->is_old_model);
  EXPECT_THAT(what_is(other), HasSubstr("that retina-convert did not write"));
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
