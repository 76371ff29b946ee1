#include "convert/import/pth_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/hash.h"
#include "shared/base/json.h"
#include "tests/convert/pth_writer.h"
#include "tests/support/refusal.h"

namespace retina {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

std::string fixture(const std::string& name) {
  return read_file(cat(RETINA_SOURCE_DIR, "/tests/convert/fixtures/", name, ".pth"));
}

std::string refusal_of_file(const std::string& bytes) {
  const std::string words = refusal_of(ErrorKind::kData, [&] { parse_pth(bytes, "w.pth"); });
  EXPECT_EQ(words.find('\n'), std::string::npos);
  return words;
}

// The bytes of all elements in row-major order, as hexadecimal digits.
std::string digits_of(const ForeignTensor& tensor) {
  std::int64_t count = 1;
  for (const std::int64_t size : tensor.shape) count *= size;
  std::string digits;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i, place = 0;
    for (std::size_t axis = tensor.shape.size(); axis-- > 0;) {
      place += rest % tensor.shape[axis] * tensor.strides[axis];
      rest /= tensor.shape[axis];
    }
    const std::size_t size = element_bytes(tensor.element);
    for (const char c : tensor.bytes.substr(static_cast<std::size_t>(place) * size, size)) {
      digits += hex64(static_cast<unsigned char>(c)).substr(14);
    }
  }
  return digits;
}

TEST(PthFile, ReadsWhatTorchWroteInBothFormats) {
  const JsonFile expected =
      JsonFile::read(cat(RETINA_SOURCE_DIR, "/tests/convert/fixtures/expected.json"));
  for (const char* name : {"zip", "legacy", "zip_protocol4", "training_zip", "training_legacy"}) {
    SCOPED_TRACE(name);
    const std::string bytes = fixture(name);
    const auto tensors = parse_pth(bytes, name).tensors;
    const JsonView want = expected.root().at(name);
    ASSERT_EQ(tensors.size(), want.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      SCOPED_TRACE(tensors[i].name);
      const JsonView entry = want.at(i);
      EXPECT_EQ(tensors[i].name, entry.at("name").as_string());
      ASSERT_EQ(tensors[i].shape.size(), entry.at("shape").size());
      for (std::size_t axis = 0; axis < tensors[i].shape.size(); ++axis) {
        EXPECT_EQ(tensors[i].shape[axis], entry.at("shape").at(axis).as_int());
      }
      EXPECT_EQ(digits_of(tensors[i]), entry.at("bytes").as_string());
    }
  }
}

TEST(PthFile, WithoutADictOfTensorsIsRefused) {
  EXPECT_THAT(refusal_of_file(pth_zip(PickleText().op("N").stop(), {})),
              HasSubstr("no dict of tensors"));
}

// {KEY: {NAME: a tensor of 8 bytes}, ...}, and a tensor beside them.
std::string training_file(const std::vector<std::pair<std::string, std::string>>& dicts) {
  PickleText pickle;
  pickle.op("}").text("best_acc1").tensor("ByteStorage", "k", 8, 0, {}, {}).op("s");
  for (const auto& [key, name] : dicts) {
    pickle.text(key).op("}").text(name).tensor("ByteStorage", "k", 8, 0, {8}, {1}).op("ss");
  }
  return pth_zip(pickle.stop(), {{"k", "12345678"}});
}

TEST(PthFile, TakesTheStateDictAndNotATensorBesideIt) {
  for (const char* key : {"model", "state_dict", "model_state_dict", "ema", "params_ema"}) {
    const std::string bytes = training_file({{"optimizer", "a"}, {key, "w"}});
    const ForeignWeights found = parse_pth(bytes, "w.pth");
    ASSERT_EQ(found.tensors.size(), 1U) << key;
    EXPECT_EQ(found.tensors[0].name, "w");
    EXPECT_EQ(found.average, "");
  }
}

TEST(PthFile, TakesTheAverageOfTheWeightsWhereBothAreThereAndSaysSo) {
  for (const auto& [weights, average] :
       {std::pair{"model", "model_ema"}, std::pair{"state_dict", "ema_state_dict"},
        std::pair{"params", "params_ema"}, std::pair{"model", "ema"}}) {
    for (const bool average_first : {false, true}) {
      std::vector<std::pair<std::string, std::string>> dicts = {{weights, "w"},
                                                                {average, "module.w"}};
      if (average_first) std::swap(dicts[0], dicts[1]);
      const std::string bytes = training_file(dicts);
      const ForeignWeights found = parse_pth(bytes, "w.pth");
      ASSERT_EQ(found.tensors.size(), 1U);
      EXPECT_EQ(found.tensors[0].name, "module.w");
      EXPECT_EQ(found.average, average);
      EXPECT_EQ(found.weights, weights);
    }
  }
}

TEST(PthFile, FindsAnAverageInsideOfItsWrapper) {
  const std::string bytes = pth_zip(PickleText()
                                        .op("}")
                                        .text("ema")
                                        .op("}")
                                        .text("updates")
                                        .op("K\x07s")
                                        .text("module")
                                        .op("}")
                                        .text("w")
                                        .tensor("ByteStorage", "k", 8, 0, {8}, {1})
                                        .op("sss")
                                        .stop(),
                                    {{"k", "12345678"}});
  const ForeignWeights found = parse_pth(bytes, "w.pth");
  ASSERT_EQ(found.tensors.size(), 1U);
  EXPECT_EQ(found.tensors[0].name, "w");
}

TEST(PthFile, TellsOtherFilesApart) {
  EXPECT_THAT(refusal_of_file(""), HasSubstr("is an empty file"));
  EXPECT_THAT(refusal_of_file("hello"), HasSubstr("not a file of torch.save"));
  EXPECT_THAT(refusal_of_file(stored_zip({{"a/data.pkl", "."}, {"a/retina/index.json", "."}})),
              HasSubstr("already a checkpoint of retina-batch"));
  EXPECT_THAT(refusal_of_file(stored_zip({{"a/data.pkl", "."}, {"a/byteorder", "big"}})),
              HasSubstr("big-endian"));
}

TEST(PthFile, EveryCutIsRefused) {
  for (const char* name : {"zip", "legacy", "training_zip", "training_legacy"}) {
    const std::string bytes = fixture(name);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      ASSERT_NE(refusal_of_file(bytes.substr(0, length)), "accepted")
          << name << " cut to " << length;
    }
  }
}

TEST(PthFile, AFlippedBitOfTheZipsPickleOrTensorsIsFound) {
  const std::string bytes = fixture("zip");
  const auto tensors = parse_pth(bytes, "zip").tensors;
  for (const ForeignTensor& tensor : tensors) {
    if (tensor.bytes.empty()) continue;
    std::string changed = bytes;
    changed[static_cast<std::size_t>(tensor.bytes.data() - bytes.data())] ^= 4;
    EXPECT_THAT(refusal_of_file(changed), HasSubstr("CRC-32")) << tensor.name;
  }
  std::string changed = bytes;
  changed[bytes.find("float32")] ^= 4;
  EXPECT_THAT(refusal_of_file(changed), HasSubstr("CRC-32"));
}

// A file of one tensor over a storage of 6 floats.
std::string one_tensor(std::int64_t count, std::int64_t offset,
                       const std::vector<std::int64_t>& shape,
                       const std::vector<std::int64_t>& strides, bool legacy) {
  const std::string pickle = PickleText()
                                 .op("}")
                                 .text("w")
                                 .tensor("FloatStorage", "k", count, offset, shape, strides, legacy)
                                 .op("s")
                                 .stop();
  const std::string memory(24, 'm');
  return legacy ? pth_legacy(pickle, {{.key = "k", .bytes = memory}})
                : pth_zip(pickle, {{"k", memory}});
}

TEST(PthFile, TensorsStayInsideOfTheirStorage) {
  for (const bool legacy : {false, true}) {
    const auto check = [&](std::int64_t count, std::int64_t offset,
                           const std::vector<std::int64_t>& shape,
                           const std::vector<std::int64_t>& strides) {
      return refusal_of_file(one_tensor(count, offset, shape, strides, legacy));
    };
    EXPECT_EQ(check(6, 0, {2, 3}, {3, 1}), "accepted");
    EXPECT_EQ(check(6, 0, {3, 2}, {1, 3}), "accepted");
    EXPECT_EQ(check(6, 5, {}, {}), "accepted");
    EXPECT_EQ(check(6, 6, {0, kHuge}, {kHuge, kHuge}), "accepted");
    EXPECT_THAT(check(6, 1, {2, 3}, {3, 1}), HasSubstr("does not fit"));
    EXPECT_THAT(check(6, 7, {0}, {1}), HasSubstr("does not fit"));
    EXPECT_THAT(check(6, -1, {2}, {1}), HasSubstr("does not fit"));
    EXPECT_THAT(check(6, kHuge, {2}, {1}), HasSubstr("does not fit"));
    EXPECT_THAT(check(6, 0, {7}, {0}), HasSubstr("does not fit"));
    EXPECT_THAT(check(6, 0, {kHuge, kHuge}, {0, 0}), HasSubstr("does not fit"));
    EXPECT_THAT(check(6, 0, {2, 2}, {kHuge, kHuge}), HasSubstr("does not fit"));
    EXPECT_THAT(check(6, 0, {-1}, {1}), HasSubstr("size or stride"));
    EXPECT_THAT(check(6, 0, {2}, {-1}), HasSubstr("size or stride"));
    EXPECT_THAT(check(6, 0, {2, 3}, {1}), HasSubstr("different lengths"));
    EXPECT_THAT(check(6, 0, std::vector<std::int64_t>(17, 1), std::vector<std::int64_t>(17, 1)),
                HasSubstr("too many dimensions"));
    EXPECT_NE(check(5, 0, {2}, {1}), "accepted");
    EXPECT_NE(check(7, 0, {2}, {1}), "accepted");
    EXPECT_NE(check(-1, 0, {2}, {1}), "accepted");
    EXPECT_NE(check(kHuge, 0, {2}, {1}), "accepted");
  }
}

TEST(PthFile, AStorageThatManyTensorsRepeatIsRefused) {
  PickleText pickle;
  pickle.op("}");
  const std::string memory(4000, 'm');
  for (int i = 0; i < 100; ++i) {
    pickle.text(cat("w", i)).tensor("FloatStorage", "k", 1000, 0, {1000}, {1}).op("s");
  }
  EXPECT_THAT(refusal_of_file(pth_zip(pickle.stop(), {{"k", memory}})), HasSubstr("too often"));
}

TEST(PthFile, ANameThatComesTwiceIsRefused) {
  PickleText pickle;
  pickle.op("}");
  for (int i = 0; i < 2; ++i) {
    pickle.text("w").tensor("ByteStorage", "k", 8, 0, {8}, {1}).op("s");
  }
  EXPECT_THAT(refusal_of_file(pth_zip(pickle.stop(), {{"k", "12345678"}})),
              HasSubstr("appears twice"));
}

TEST(PthFile, NamesThatCannotBeShownAreRefusedOnOneLine) {
  for (const char* name : {"two\nlines", "\x1b[2J"}) {
    const std::string pickle =
        PickleText().op("}").text(name).tensor("ByteStorage", "k", 8, 0, {8}, {1}).op("s").stop();
    EXPECT_THAT(refusal_of_file(pth_zip(pickle, {{"k", "12345678"}})),
                HasSubstr("name that no model uses"));
    const std::string key =
        PickleText().op("}").text("w").tensor("ByteStorage", name, 8, 0, {8}, {1}).op("s").stop();
    EXPECT_THAT(refusal_of_file(pth_zip(key, {})), HasSubstr("has no file archive/data/"));
  }
}

TEST(PthFile, AMissingStorageIsRefused) {
  const std::string pickle =
      PickleText().op("}").text("w").tensor("ByteStorage", "k", 8, 0, {8}, {1}).op("s").stop();
  EXPECT_THAT(refusal_of_file(pth_zip(pickle, {})), HasSubstr("data/k"));
  EXPECT_THAT(refusal_of_file(pth_legacy(pickle, {})), HasSubstr("its storage is missing"));
}

}  // namespace
}  // namespace retina
