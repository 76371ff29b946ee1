#include "shared/checkpoint/foreign/pickle_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shared/base/error.h"
#include "tests/convert/pth_writer.h"
#include "tests/support/refusal.h"

namespace retina {
namespace {

using testing::HasSubstr;
using namespace std::string_literals;

std::string refusal(const std::string& pickle) {
  return refusal_of(ErrorKind::kData, [&] { read_pickle(pickle, "w.pth"); });
}

TEST(PickleReader, ReadsScalarsAndContainers) {
  const std::string bytes = PickleText()
                                .op("(")
                                .text("name")
                                .op("K\x07M\x01\x02J")
                                .op("\xfe\xff\xff\xff")
                                .op("N\x88]")
                                .op("(K\x01K\x02"s + "e}K\x03Ns\x85t")
                                .stop();
  const PickleDocument document = read_pickle(bytes, "w.pth");
  EXPECT_EQ(document.size_bytes, bytes.size());
  const PickleValue& root = document.at(document.root);
  ASSERT_EQ(root.kind, PickleKind::kTuple);
  ASSERT_EQ(root.items.size(), 8U);
  const auto item = [&](std::size_t i) -> const PickleValue& { return document.at(root.items[i]); };
  EXPECT_EQ(item(0).text, "name");
  EXPECT_EQ(item(1).integer, 7);
  EXPECT_EQ(item(2).integer, 0x0201);
  EXPECT_EQ(item(3).integer, -2);
  EXPECT_EQ(item(4).kind, PickleKind::kNone);
  EXPECT_EQ(item(5).integer, 1);
  EXPECT_EQ(item(6).items.size(), 2U);
  ASSERT_EQ(item(7).kind, PickleKind::kTuple);
  EXPECT_EQ(document.at(item(7).items[0]).items.size(), 2U);
}

TEST(PickleReader, ReadsIntegersOfAnyLength) {
  const auto value = [](const std::string& digits) {
    const std::string bytes = "\x80\x02\x8a"s + static_cast<char>(digits.size()) + digits + ".";
    const PickleDocument document = read_pickle(bytes, "w.pth");
    return document.at(document.root);
  };
  EXPECT_EQ(value("").integer, 0);
  EXPECT_EQ(value("\xff").integer, -1);
  EXPECT_EQ(value("\xff\x00"s).integer, 255);
  EXPECT_EQ(value("\x00\x80"s).integer, -32768);
  EXPECT_EQ(value("\x00\x00\x00\x00\x00\x00\x00\x80"s).integer,
            std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(value("123456789").kind, PickleKind::kBigInt);
}

TEST(PickleReader, TakesWhatTheMemoHolds) {
  const std::string bytes = PickleText().op("(").text("a").op("q\x05h\x05").op("t").stop();
  const PickleDocument document = read_pickle(bytes, "w.pth");
  const PickleValue& root = document.at(document.root);
  ASSERT_EQ(root.items.size(), 2U);
  EXPECT_EQ(root.items[0], root.items[1]);
  EXPECT_THAT(refusal(PickleText().op("h\x05").stop()), HasSubstr("never filled"));
  EXPECT_EQ(refusal(PickleText().op("]q").op("\0h\0a"s).stop()), "accepted") << "a cycle";
}

TEST(PickleReader, RefusesEveryNameOutsideOfTheListByName) {
  for (const auto& [module, name] : {std::pair{"os", "system"},
                                     {"posix", "system"},
                                     {"builtins", "eval"},
                                     {"__builtin__", "exec"},
                                     {"torch._utils", "_rebuild_device_tensor_from_numpy"},
                                     {"torch.nn.modules.linear", "Linear"},
                                     {"mmengine.logging.history_buffer", "HistoryBuffer"},
                                     {"collections", "OrderedDict2"}}) {
    EXPECT_THAT(refusal(PickleText().global(module, name).stop()),
                HasSubstr(cat(module, ".", name)));
    EXPECT_THAT(refusal(PickleText().text(module).text(name).op("\x93").stop()),
                HasSubstr(cat(module, ".", name)));
  }
}

TEST(PickleReader, AnUnprintableNameStaysOnOneLine) {
  const std::string message = refusal(PickleText().text("o\ns").text("\x1b[2J").op("\x93").stop());
  EXPECT_THAT(message, HasSubstr("o\\ns.\\x1b[2J"));
}

TEST(PickleReader, RefusesCallsOfWhatIsNoFunction) {
  EXPECT_THAT(refusal(PickleText().text("system").op(")R").stop()), HasSubstr("not a function"));
  EXPECT_THAT(refusal(PickleText().global("torch", "FloatStorage").op(")R").stop()),
              HasSubstr("storage type"));
  EXPECT_THAT(refusal(PickleText().global("torch._utils", "_rebuild_tensor_v2").op(")R").stop()),
              HasSubstr("different arguments"));
}

TEST(PickleReader, ReadsAnOrderedDictOfPython2) {
  const std::string bytes = PickleText()
                                .global("collections", "OrderedDict")
                                .op("(](](")
                                .text("a")
                                .op("K\x01")
                                .op("e](")
                                .text("b")
                                .op("K\x02")
                                .op("eetR")
                                .stop();
  const PickleDocument document = read_pickle(bytes, "w.pth");
  const PickleValue& root = document.at(document.root);
  ASSERT_EQ(root.kind, PickleKind::kDict);
  ASSERT_EQ(root.items.size(), 4U);
  EXPECT_EQ(document.at(root.items[2]).text, "b");
}

TEST(PickleReader, ReadsAParameterThatGetsItsTensorLater) {
  const std::string parameter = PickleText()
                                    .global("torch.nn.parameter", "Parameter")
                                    .op(")\x81(")
                                    .tensor("FloatStorage", "0", 2, 0, {2}, {1})
                                    .op("\x88Ntb")
                                    .stop();
  const PickleDocument document = read_pickle(parameter, "w.pth");
  EXPECT_EQ(document.at(document.root).kind, PickleKind::kTensor);
}

TEST(PickleReader, HasALimitOfValues) {
  EXPECT_THAT(refusal("\x80\x02" + std::string(2'000'001, ')')), HasSubstr("too many values"));
}

TEST(PickleReader, ListsThatAreUsedOftenDoNotMultiply) {
  // One list of 100 pairs, made into a dict again and again: 4 bytes a copy.
  PickleText pickle;
  pickle.op("](");
  for (int i = 0; i < 100; ++i) pickle.op("]K\1aK\1a"s);
  pickle.op("e\x85q").op("\0"s).op("0").global("collections", "OrderedDict").op("q\1");
  pickle.op("0](");
  for (int i = 0; i < 1000; ++i) pickle.op("h\1h\0R"s);
  const std::string bytes = pickle.op("e").stop();
  std::size_t item_count = 0;
  for (const PickleValue& value : read_pickle(bytes, "w.pth").values) {
    item_count += value.items.size();
  }
  EXPECT_LT(item_count, 2000);
}

TEST(PickleReader, RefusesStacksThatDoNotFit) {
  EXPECT_THAT(refusal(PickleText().stop()), HasSubstr("ends with 0 values"));
  EXPECT_THAT(refusal(PickleText().op("NN").stop()), HasSubstr("ends with 2 values"));
  EXPECT_THAT(refusal(PickleText().op("\x86").stop()), HasSubstr("empty stack"));
  EXPECT_THAT(refusal(PickleText().op("N(0").stop()), HasSubstr("empty stack"));
  EXPECT_THAT(refusal(PickleText().op("t").stop()), HasSubstr("not open"));
  EXPECT_THAT(refusal(PickleText().op("N(NNu").stop()), HasSubstr("does not take"));
  EXPECT_THAT(refusal(PickleText().op("}(Nu").stop()), HasSubstr("does not take"));
  EXPECT_THAT(refusal(PickleText().op("i").stop()), HasSubstr("opcode 105"));
}

TEST(PickleReader, EveryCutIsRefused) {
  const std::string whole = PickleText()
                                .op("}")
                                .text("w")
                                .tensor("HalfStorage", "0", 6, 0, {2, 3}, {3, 1})
                                .op("s")
                                .stop();
  EXPECT_EQ(refusal(whole), "accepted");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(refusal(whole.substr(0, length)), "accepted") << length;
  }
}

}  // namespace
}  // namespace retina
