#include "shared/onnx/onnx_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "shared/base/error.h"
#include "tests/onnx/small_model.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(OnnxFile, TellsItsHeader) {
  const TestFolder folder;
  InferenceHeader header =
      header_of(detector_config(), {.image = PixelSize{.height = 64, .width = 96}});
  header.score_threshold = 0.125;
  header.max_detections = 17;
  write_onnx_file(folder / "m.onnx", small_model(header).bytes);
  EXPECT_TRUE(is_onnx_file(folder / "m.onnx"));
  const InferenceHeader read = read_inference_header(folder / "m.onnx");
  EXPECT_EQ(read.to_json(), header.to_json());
  EXPECT_EQ(read.form.image, (PixelSize{.height = 64, .width = 96}));
}

TEST(OnnxFile, WhatHoldsNoHeaderIsNotOurs) {
  for (const auto& [bytes, words] :
       {std::pair{std::string("\x08\x08 no more"), "not an inference model of retina-convert"},
        {std::string("\x08\x08\x3a\xff\xff\xff\x7f", 7), "that retina-convert did not write"},
        {std::string(100, '\xff'), "not an inference model of retina-convert"},
        {std::string(), "is an empty file"},
        {sealed("\x08\x08"), "has no header"}}) {
    EXPECT_THAT(refusal_of(ErrorKind::kData, [&] { read_inference_header(bytes, "m.onnx"); }),
                HasSubstr(words));
  }
}

TEST(OnnxFile, AHeaderThatNoModelHasNamesItsPlace) {
  const auto words = [](const std::string& json) {
    return refusal_of(ErrorKind::kData, [&] { parse_inference_header(json, "m.onnx"); });
  };
  EXPECT_THAT(words("{"), HasSubstr("m.onnx"));
  EXPECT_THAT(words(R"({"format_version":9})"), HasSubstr("newer version"));
  EXPECT_THAT(words(R"({"format_version":2})"), HasSubstr("written by an earlier version"));
  const std::string good = header_of(detector_config()).to_json();
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string json = good;
    json.replace(json.find(from), from.size(), to);
    return words(json);
  };
  EXPECT_EQ(words(good), "accepted");
  EXPECT_THAT(with(R"("weights":"f32")", R"("weights":"f64")"),
              AllOf(HasSubstr("onnx: weights"), HasSubstr("want one of f32, f16, int8")));
  EXPECT_THAT(with(R"("postprocess":true)", R"("postprocess":true,"height":0,"width":5)"),
              AllOf(HasSubstr("height"), HasSubstr("want 1 to 16384")));
  EXPECT_THAT(with(R"("max_detections":300)", R"("max_detections":4294967297)"),
              HasSubstr("max_detections: got 4294967297"));
}

TEST(OnnxFile, ANumberIsReplacedInItsPlace) {
  std::string bytes = sealed(small_model(header_of(detector_config())).bytes);
  const std::size_t size = bytes.size();
  EXPECT_TRUE(set_onnx_number(bytes, kOnnxScoreThreshold, 0.25F));
  EXPECT_FALSE(set_onnx_number(bytes, "no such constant", 0.25F));
  EXPECT_FALSE(set_onnx_number(bytes, "body/conv1.bias", 0.25F));  // more than one number
  EXPECT_EQ(bytes.size(), size);
  const onnx::ModelProto model = as_message(bytes);
  const auto& tensors = model.graph().initializer();
  const auto found = std::find_if(tensors.begin(), tensors.end(), [](const auto& tensor) {
    return tensor.name() == kOnnxScoreThreshold;
  });
  ASSERT_NE(found, tensors.end());
  float number = 0;
  ASSERT_EQ(found->raw_data().size(), sizeof number);
  std::memcpy(&number, found->raw_data().data(), sizeof number);
  EXPECT_EQ(number, 0.25F);
  std::string classifier = small_model(header_of(classifier_config())).bytes;
  EXPECT_FALSE(set_onnx_number(classifier, kOnnxScoreThreshold, 0.25F));
}

TEST(OnnxFile, EveryFlippedByteAndEveryCutIsDamage) {
  const std::string whole = sealed(small_model(header_of(classifier_config())).bytes);
  const auto words = [&](const std::string& bytes) {
    return refusal_of(ErrorKind::kData, [&] { check_onnx_seal(bytes, "d.onnx"); });
  };
  EXPECT_EQ(words(whole), "accepted");
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < 40; ++i) {
    places.push_back(i * whole.size() / 40);
    places.push_back(whole.size() - 1 - i);
  }
  for (const std::size_t place : places) {
    std::string bytes = whole;
    bytes[place] = static_cast<char>(bytes[place] ^ 4);
    EXPECT_NE(words(bytes), "accepted") << "flipped at " << place;
    EXPECT_NE(words(whole.substr(0, place)), "accepted") << "cut at " << place;
  }
}

}  // namespace
}  // namespace retina
