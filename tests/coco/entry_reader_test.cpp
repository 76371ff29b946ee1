// Files of COCO as programs write them, whole and damaged, however they are cut into pieces: what
// read_instances() and read_results() say is what a plain walk over RapidJSON's document says.
#include "shared/coco/entry_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/coco/instances.h"
#include "shared/coco/results.h"
#include "shared/numeric/random.h"
#include "tests/support/refusal.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

using testing::HasSubstr;
using Texts = std::vector<std::string>;

// Draws files as programs write them, and with what makes the reader's work hard.
class Author {
 public:
  // A careless one writes a key twice now and then.
  explicit Author(std::uint64_t seed, bool is_careless = false)
      : random_{.seed = seed}, is_careless_(is_careless) {}

  std::string instances() {
    const std::string images = list(1 + below(4), [&](std::uint64_t id) {
      return Texts{cat("\"id\": ", id),
                   one_of({R"("file_name": "a.jpg")", R"("file_name":"b c/d.jpg")",
                           R"("file_name":"\u00e9}, {\"\ud83d\udc31")"}),
                   one_of({"\"width\": 640", "\"width\" : 1", R"("w\u0069dth":7.0)"}),
                   "\"height\": 480"};
    });
    const std::string annotations = list(below(6), [&](std::uint64_t id) {
      Texts members{cat("\"id\": ", id), "\"image_id\": 0", "\"category_id\": 0",
                    "\"bbox\" :" + box(true)};
      if (below(2) != 0) {
        members.push_back(one_of({"\"area\": 12", "\"area\": 70.5", "\"area\": 1.2e3"}));
      }
      if (below(2) != 0) {
        members.push_back(one_of({"\"iscrowd\": 0", "\"iscrowd\": 1", "\"iscrowd\": true"}));
      }
      return members;
    });
    const std::string categories = list(1 + below(3), [&](std::uint64_t id) {
      Texts members{cat("\"id\": ", id), cat("\"name\": \"class ", id, "\"")};
      if (below(2) != 0) members.push_back(R"("supercategory": "things")");
      return members;
    });
    return mark() +
           object({"\"images\": " + images, "\"annotations\": " + annotations,
                   "\"categories\":" + categories}) +
           space();
  }

  std::string results() {
    return mark() +
           list(below(40),
                [&](std::uint64_t) {
                  return Texts{cat("\"image_id\":", space(), below(1000)),
                               cat("\"category_id\" :", below(90)), "\"bbox\": " + box(false),
                               "\"score\":" + number(false)};
                }) +
           space();
  }

  // Another byte, one less or one more.
  std::string damaged(std::string text) {
    static const std::string kBytes("\"\\{}[],:.-+eE01 9ntN\n\x80\x01\0", 24);
    const std::size_t at = below(text.size());
    const char byte = kBytes[below(kBytes.size())];
    switch (below(4)) {
      case 0:
        text[at] = byte;
        break;
      case 1:
        text.erase(at, 1 + below(3));
        break;
      case 2:
        text.resize(at);
        break;
      default:
        text.insert(at, 1, byte);
    }
    return text;
  }

  ReadingPieces pieces() {
    return {.thread_count = static_cast<int>(1 + below(3)), .piece_bytes = 1 + below(400)};
  }

  std::uint64_t below(std::uint64_t bound) { return random_.bits(place_++) % bound; }

 private:
  std::string one_of(const Texts& texts) { return texts[below(texts.size())]; }
  std::string space() { return one_of({"", "", " ", "\n", "\n    ", "\t\r\n"}); }
  std::string mark() { return one_of({"", "", "\xEF\xBB\xBF"}) + space(); }

  std::string number(bool is_size) {
    double value = 1000 * random_.normal(place_++);
    if (is_size) value = std::abs(value);
    switch (below(7)) {
      case 0:
        return cat(static_cast<int>(value));
      case 1:
        return cat(static_cast<int>(value), ".50");
      case 2:
        return cat(static_cast<int>(value), "e-3");
      case 3:
        return "0.1000000000000000055511151231257827";
      case 4:
        return is_size ? "18446744073709551615" : "-0";
      default:
        return shortest(value);
    }
  }

  std::string box(bool may_be_negative) {
    const std::string x = number(false), y = number(false);
    return cat("[", space(), x, " ,", y, ", ", number(!may_be_negative || below(9) != 0), space(),
               ",", number(true), "]");
  }

  template <class Members>
  std::string list(std::uint64_t count, const Members& members) {
    std::string text = "[" + space();
    for (std::uint64_t id = 0; id < count; ++id) {
      text += cat(id == 0 ? "" : ",", space(), object(members(id)), space());
    }
    return text + space() + "]";
  }

  // The members in any order, and some that nobody reads.
  std::string object(Texts members) {
    if (is_careless_ && below(8) == 0) members.push_back(members[below(members.size())]);
    while (below(3) == 0) {
      members.push_back(one_of(
          {R"("segmentation": [[1.5, 2, 3], []])", R"("info": {"id": "}, {\"id\": 3"})",
           R"("segmentation": {"counts": [1, 2], "size": [4, 5]})", R"("x": null)",
           R"("caption": "},{")", R"("mask": {"size": [4, 5], "counts": "a},{b]"})",
           R"("parts": [{"id": 1}, {"id": 2},{}])", R"("flags": [true, false, null, {}])",
           R"("iou": NaN)", R"("half": "\udce9")", R"("big": 123456789012345678901234567890)"}));
    }
    for (std::size_t i = members.size(); i > 1; --i) std::swap(members[i - 1], members[below(i)]);
    std::string text = "{" + space();
    for (std::size_t i = 0; i < members.size(); ++i) {
      text += cat(i == 0 ? "" : ",", space(), members[i], space());
    }
    return text + "}";
  }

  RandomStream random_;
  bool is_careless_;
  std::uint64_t place_ = 0;
};

// The walk over RapidJSON's document: a value, and its keys once each.
JsonView one_at(const JsonView& object, std::string_view key) {
  int count = 0;
  if (object.raw().IsObject()) {
    for (const auto& member : object.raw().GetObject()) count += member.name.GetString() == key;
  }
  if (count > 1) object.fail("twice");
  return object.at(std::string(key).c_str());
}

bool is_given(const JsonView& object, const char* key) {
  return object.has(key) && !one_at(object, key).raw().IsNull();
}

std::int64_t integer_of(const JsonView& value) {
  const double real = value.as_double();
  if (!value.raw().IsInt64() && (std::abs(real) > 0x1p53 || real != std::nearbyint(real))) {
    value.fail("no integer");
  }
  return value.raw().IsInt64() ? value.as_int() : static_cast<std::int64_t>(real);
}

double finite_of(const JsonView& value) {
  if (!std::isfinite(value.as_double())) value.fail("not finite");
  return value.as_double();
}

std::array<double, 4> box_of(const JsonView& value) {
  if (value.size() != 4) value.fail("not 4");
  std::array<double, 4> box{};
  for (std::size_t i = 0; i < 4; ++i) box[i] = finite_of(value.at(i));
  return box;
}

std::string text_of(const JsonView& value, bool is_file = false) {
  const std::string text = value.as_string();
  if (is_file && (text.empty() || text.find('\0') != std::string::npos)) value.fail("no name");
  return text;
}

Instances expected_instances(const std::string& text) {
  const JsonFile json = JsonFile::parse_foreign(text, "i.json");
  Instances all;
  const JsonView images = one_at(json.root(), "images"),
                 annotations = one_at(json.root(), "annotations"),
                 categories = one_at(json.root(), "categories");
  for (std::size_t i = 0; i < images.size(); ++i) {
    const JsonView one = images.at(i);
    const std::int64_t width = integer_of(one_at(one, "width")),
                       height = integer_of(one_at(one, "height"));
    if (std::min(width, height) < 1 || std::max(width, height) > 0x7fffffff) one.fail("size");
    all.images.push_back({.id = integer_of(one_at(one, "id")),
                          .file_name = text_of(one_at(one, "file_name"), true),
                          .width = static_cast<int>(width),
                          .height = static_cast<int>(height)});
  }
  for (std::size_t i = 0; i < annotations.size(); ++i) {
    const JsonView one = annotations.at(i);
    const auto box = box_of(one_at(one, "bbox"));
    const bool has_flag = is_given(one, "iscrowd"), has_area = is_given(one, "area");
    const bool is_bool = has_flag && one.at("iscrowd").raw().IsBool();
    const std::int64_t flag = !has_flag ? 0
                              : is_bool ? (one.at("iscrowd").as_bool() ? 1 : 0)
                                        : integer_of(one.at("iscrowd"));
    if (flag != 0 && flag != 1) one.fail("iscrowd");
    all.annotations.push_back({.id = integer_of(one_at(one, "id")),
                               .image_id = integer_of(one_at(one, "image_id")),
                               .category_id = integer_of(one_at(one, "category_id")),
                               .bbox = box,
                               .area = has_area ? finite_of(one.at("area")) : box[2] * box[3],
                               .iscrowd = flag == 1});
    if (all.annotations.back().image_id >= static_cast<std::int64_t>(images.size()) ||
        all.annotations.back().category_id >= static_cast<std::int64_t>(categories.size())) {
      one.fail("reference");
    }
  }
  for (std::size_t i = 0; i < categories.size(); ++i) {
    const JsonView one = categories.at(i);
    all.categories.push_back(
        {.id = integer_of(one_at(one, "id")),
         .name = text_of(one_at(one, "name")),
         .supercategory = is_given(one, "supercategory") ? text_of(one.at("supercategory")) : ""});
  }
  return all;
}

std::vector<Detection> expected_results(const std::string& text) {
  const JsonFile json = JsonFile::parse_foreign(text, "r.json");
  std::vector<Detection> all;
  for (std::size_t i = 0; i < json.root().size(); ++i) {
    const JsonView one = json.root().at(i);
    all.push_back({.image_id = integer_of(one_at(one, "image_id")),
                   .category_id = integer_of(one_at(one, "category_id")),
                   .bbox = box_of(one_at(one, "bbox")),
                   .score = finite_of(one_at(one, "score"))});
    if (all.back().bbox[2] < 0 || all.back().bbox[3] < 0) one.fail("size");
  }
  return all;
}

// Exact: -0 is written as that.
std::string text_of(const std::vector<Detection>& all) {
  std::string text;
  for (const Detection& one : all) {
    text += cat(one.image_id, ' ', one.category_id, ' ', shortest(one.score));
    for (const double side : one.bbox) text += ' ' + shortest(side);
    text += '\n';
  }
  return text;
}
std::string text_of(const Instances& all) {
  return instances_to_json(all);
}

// What reading says: what has been read, or the message.
template <class Read>
std::string outcome(const Read& read) {
  try {
    return text_of(read());
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData) << error.what();
    return cat("refused: ", error.what(), " hint: ", error.hint());
  }
}

bool is_refused(const std::string& outcome) {
  return outcome.starts_with("refused: ");
}

struct Counts {
  int refused = 0, all = 0;
};

// Reads each text as a whole and in pieces.
template <class Draw, class Read, class Expect>
Counts compare(std::uint64_t seed_count, const Draw& draw, const Read& read, const Expect& expect) {
  const TestFolder folder;
  const std::string path = folder / "file.json";
  Counts counts;
  for (std::uint64_t seed = 0; seed < seed_count; ++seed) {
    Author author(seed, true);
    const std::string text = draw(author);
    std::ofstream(path, std::ios::binary) << text;
    const std::string wanted = outcome([&] { return expect(text); }),
                      whole = outcome([&] { return read(path, ReadingPieces()); });
    ++counts.all;
    EXPECT_EQ(is_refused(whole), is_refused(wanted)) << wanted << '\n' << whole << '\n' << text;
    if (is_refused(wanted)) {
      ++counts.refused;
    } else {
      EXPECT_EQ(whole, wanted) << text;
    }
    for (int i = 0; i < 6; ++i) {
      const ReadingPieces pieces = author.pieces();
      EXPECT_EQ(outcome([&] { return read(path, pieces); }), whole)
          << "seed " << seed << ", pieces of " << pieces.piece_bytes << " bytes for "
          << pieces.thread_count << " threads\n"
          << text;
    }
    if (testing::Test::HasFailure()) break;
  }
  return counts;
}

TEST(EntryReader, InstancesAreThoseOfTheDocumentHoweverTheFileIsCut) {
  const Counts counts = compare(
      400, [](Author& author) { return author.instances(); }, read_instances, expected_instances);
  EXPECT_LT(counts.refused, 360);
  EXPECT_GT(counts.refused, 40) << "keys that come twice";
}

TEST(EntryReader, DamagedInstancesAreReadOrRefusedAsTheDocumentIs) {
  const Counts counts = compare(
      2000, [](Author& author) { return author.damaged(author.instances()); }, read_instances,
      expected_instances);
  EXPECT_GT(counts.refused, 1000);
  EXPECT_LT(counts.refused, 1990);
}

TEST(EntryReader, ResultsAreThoseOfTheDocumentHoweverTheFileIsCut) {
  const Counts counts = compare(
      300, [](Author& author) { return author.results(); }, read_results, expected_results);
  EXPECT_LT(counts.refused, 295);
  EXPECT_GT(counts.refused, 20);
}

TEST(EntryReader, DamagedResultsAreReadOrRefusedAsTheDocumentIs) {
  const Counts counts = compare(
      1500, [](Author& author) { return author.damaged(author.results()); }, read_results,
      expected_results);
  EXPECT_GT(counts.refused, 500);
  EXPECT_LT(counts.refused, 1495);
}

// In pieces as programs have them: many entries each, and threads.
TEST(EntryReader, LargeFilesAreReadInOrder) {
  const TestFolder folder;
  const std::string path = folder / "r.json";
  std::vector<Detection> detections(50'000);
  for (std::size_t i = 0; i < detections.size(); ++i) {
    detections[i] = {.image_id = static_cast<std::int64_t>(i),
                     .score = 1.0 / static_cast<double>(i + 1)};
  }
  write_results(path, detections, [](std::int64_t) { return "}, {\"image_id\": 1"; });
  ASSERT_GT(file_size_bytes(path), std::uint64_t{4} << 20);
  for (const int thread_count : {0, 1, 5}) {
    EXPECT_EQ(text_of(read_results(path, {.thread_count = thread_count})), text_of(detections));
  }
  // An error far behind is told with its place.
  std::string text = read_file(path);
  text.replace(text.rfind("\"score\""), 7, "\"scor\\u0065\": 1, \"score\"");
  write_file_atomically(path, text);
  EXPECT_THAT(refusal_of(ErrorKind::kData, [&] { read_results(path); }),
              HasSubstr("entry [49999]: key \"score\" appears twice"));
  write_file_atomically(path, text.substr(0, text.size() - 3));
  EXPECT_THAT(refusal_of(ErrorKind::kData, [&] { read_results(path); }),
              HasSubstr("not valid JSON at line 50001, column 1"));
}

TEST(EntryReader, AListThatNobodyAskedForIsReadInPiecesAndHasToBeJson) {
  const TestFolder folder;
  const std::string path = folder / "i.json";
  std::string annotations;
  for (int i = 0; i < 20'000; ++i) {
    annotations +=
        cat(i == 0 ? "" : ",", R"({"id": )", i, R"(, "bbox": [1, 2, 3, 4], "n": "}, {"})");
  }
  const std::string end = R"(], "numbers": [1, [2], "3"], "none": [], "categories": )"
                          R"([{"id": 7, "name": "cat"}]})";
  write_file_atomically(path, R"({"annotations": [)" + annotations + end);
  const Categories categories = read_categories(path);
  ASSERT_EQ(categories.size(), 1U);
  EXPECT_EQ(categories[0].name, "cat");
  for (const char* wrong : {",", ", {\"id\": }", ", {\"id\": 1} 2"}) {
    write_file_atomically(path, R"({"annotations": [)" + annotations + wrong + end);
    EXPECT_THAT(refusal_of(ErrorKind::kData, [&] { read_categories(path); }),
                HasSubstr("not valid JSON at line 1"))
        << wrong;
  }
}

TEST(EntryReader, EntriesMayBeLongerThanPieces) {
  const TestFolder folder;
  const std::string path = folder / "r.json", extra(1 << 20, '[');
  std::string text = "[";
  for (int i = 0; i < 3; ++i) {
    text += cat(i == 0 ? "" : ",", R"({"image_id": )", i, R"(, "x": )", extra,
                std::string(extra.size(), ']'),
                R"(, "category_id": 2, "bbox": [1, 2, 3, 4], "score": 1})");
  }
  write_file_atomically(path, text + "]");
  const auto all = read_results(path);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[2].image_id, 2);
}

// Each number as C's strtod() reads it, the sign of zero included.
void expect_as_strtod(const Texts& numbers) {
  const TestFolder folder;
  const std::string path = folder / "r.json";
  std::string text = "[";
  for (const std::string& number : numbers) {
    text +=
        cat(text.size() == 1 ? "" : ",\n",
            R"({"image_id": 1, "category_id": 1, "bbox": [0, 0, 0, 0], "score": )", number, "}");
  }
  write_file_atomically(path, text + "]");
  const std::vector<Detection> read = read_results(path);
  ASSERT_EQ(read.size(), numbers.size());
  for (std::size_t i = 0; i < read.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint64_t>(read[i].score),
              std::bit_cast<std::uint64_t>(std::strtod(numbers[i].c_str(), nullptr)))
        << numbers[i];
  }
}

TEST(EntryReader, NumbersOfAnyLengthAreRoundedAsByStrtod) {
  const RandomStream random{.seed = 7};
  std::uint64_t place = 0;
  const auto below = [&](std::uint64_t bound) { return random.bits(place++) % bound; };
  Texts numbers{"-0",
                "0",
                "-0.0",
                "-0e5",
                "1e-400",
                "-1e-400",
                "4.9406564584124654e-324",
                "1e308",
                "18446744073709551616",
                "-9223372036854775809"};
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t whole_count = 1 + below(20), decimal_count = below(21);
    std::string text = below(3) == 0 ? "-" : "";
    text += whole_count == 1 ? cat(below(10)) : cat(1 + below(9));
    for (std::uint64_t k = 1; k < whole_count; ++k) text += cat(below(10));
    if (decimal_count > 0) text += ".";
    for (std::uint64_t k = 0; k < decimal_count; ++k) text += cat(below(10));
    if (below(4) == 0) text += cat("e", below(2) == 0 ? "-" : "", below(280));
    numbers.push_back(text);
  }
  expect_as_strtod(numbers);
}

// Halfway between two f64, and the shortest step to either side of it.
TEST(EntryReader, NumbersHalfwayBetweenTwoAreRoundedAsByStrtod) {
  const RandomStream random{.seed = 8};
  Texts numbers;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    const std::uint64_t half = ((random.bits(i) >> 11) | std::uint64_t{1} << 53) | 1;  // 54 bits
    for (const std::uint64_t number : {half - 1, half, half + 1}) {
      for (const char* end : {"", ".0", ".00"}) numbers.push_back(cat(number, end));
    }
    // half / 4 = whole + (half % 4) * .25
    numbers.push_back(cat(half / 4, half % 4 == 1 ? ".25" : ".75"));
  }
  expect_as_strtod(numbers);
}

}  // namespace
}  // namespace retina
