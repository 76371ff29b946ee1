#include "shared/coco/plain_results.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/random.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

// Draws results files as programs write them, and with what makes the reader's work hard.
class Author {
 public:
  explicit Author(std::uint64_t seed) : random_{.seed = seed} {}

  std::string file(std::size_t count) {
    std::string text = space() + "[";
    for (std::size_t i = 0; i < count; ++i) text += (i == 0 ? space() : "," + space()) + record();
    return text + space() + "]" + space();
  }

  std::uint64_t below(std::uint64_t bound) { return random_.bits(place_++) % bound; }

 private:
  std::string space() {
    static const std::vector<std::string> kSpaces{"", "", " ", "\n", "\n    ", "\t\r\n"};
    return kSpaces[below(kSpaces.size())];
  }

  std::string number(bool is_size = false) {
    double value = 1000 * random_.normal(place_++);
    if (is_size && below(50) != 0) value = std::abs(value);  // a negative one is refused
    switch (below(6)) {
      case 0:
        return std::to_string(static_cast<int>(value));
      case 1:
        return cat(static_cast<int>(value), ".50");
      case 2:
        return cat(static_cast<int>(value), "e-3");
      case 3:
        return "0.1000000000000000055511151231257827";
      default:
        return shortest(value);
    }
  }

  std::string record() {
    std::vector<std::string> members{cat("\"image_id\":", space(), below(1000)),
                                     cat("\"category_id\" :", below(90)),
                                     cat("\"bbox\": [", space(), number(), space(), ",", number(),
                                         ", ", number(true), ",", number(true), space(), "]"),
                                     cat("\"score\":", number())};
    static const std::vector<std::string> kExtra{
        R"("caption": "}, {\"image_id\": 7")", R"("caption": "},{")", R"("id": 17)",
        R"("mask": {"size": [4, 5], "counts": "a},{b]"})", R"("flags": [true, false, null, {}])"};
    while (below(3) == 0) members.push_back(kExtra[below(kExtra.size())]);
    for (std::size_t i = members.size(); i > 1; --i) std::swap(members[i - 1], members[below(i)]);
    std::string text = "{" + space();
    for (std::size_t i = 0; i < members.size(); ++i) {
      text += cat(i == 0 ? "" : ",", space(), members[i], space());
    }
    return text + "}";
  }

  RandomStream random_;
  std::uint64_t place_ = 0;
};

bool equal(const std::vector<Detection>& a, const std::vector<Detection>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& one, const auto& two) {
    return one.image_id == two.image_id && one.category_id == two.category_id &&
           one.bbox == two.bbox && one.score == two.score;
  });
}

TEST(PlainResults, AreThoseOfTheCarefulReaderHoweverTheFileIsCut) {
  const TestFolder folder;
  const std::string path = folder / "r.json";
  int quick_count = 0, piece_count = 0, refused_count = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    Author author(seed);
    const std::string text = author.file(author.below(40));
    write_file_atomically(path, text);
    std::vector<Detection> careful;
    try {
      careful = parse_results(text, "r.json");
    } catch (const Error&) {
      ++refused_count;
      EXPECT_FALSE(read_plain_results(path)) << text;
      continue;
    }
    for (const std::size_t piece_bytes : {50, 333, 1000, 1 << 20}) {
      for (const int thread_count : {1, 3}) {
        const auto quick =
            read_plain_results(path, {.thread_count = thread_count, .piece_bytes = piece_bytes});
        ++piece_count;
        if (!quick) continue;
        ++quick_count;
        EXPECT_TRUE(equal(*quick, careful)) << "pieces of " << piece_bytes << " bytes";
      }
    }
    EXPECT_TRUE(read_plain_results(path)) << text;
    EXPECT_TRUE(equal(read_results(path), careful));
  }
  std::printf("%d of %d ways to cut were read quickly\n", quick_count, piece_count);
  EXPECT_GT(quick_count, piece_count / 2);
  EXPECT_LT(refused_count, 250);
}

// A changed byte is understood as the careful reader does, or left to it.
TEST(PlainResults, NeverTakeWhatTheCarefulReaderRefuses) {
  const TestFolder folder;
  const std::string path = folder / "r.json";
  int refused = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    Author author(seed);
    std::string text = author.file(1 + author.below(4));
    static const std::string kBytes = "\"\\{}[],:.-+eE01 9ntN\n\x80\x01";
    switch (author.below(3)) {
      case 0:
        text[author.below(text.size())] = kBytes[author.below(kBytes.size())];
        break;
      case 1:
        text.erase(author.below(text.size()), 1 + author.below(3));
        break;
      default:
        text.insert(author.below(text.size()), 1, kBytes[author.below(kBytes.size())]);
    }
    write_file_atomically(path, text);
    const auto quick = read_plain_results(path, {.piece_bytes = 200});
    try {
      const std::vector<Detection> careful = parse_results(text, "r.json");
      if (quick) {
        EXPECT_TRUE(equal(*quick, careful)) << text;
      }
    } catch (const Error&) {
      ++refused;
      EXPECT_FALSE(quick) << text;
    }
  }
  EXPECT_GT(refused, 80);
}

TEST(PlainResults, LeaveAMissingFileToTheCarefulReader) {
  EXPECT_FALSE(read_plain_results("no such file"));
}

}  // namespace
}  // namespace retina
