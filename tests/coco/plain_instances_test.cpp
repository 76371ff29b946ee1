#include "shared/coco/plain_instances.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/random.h"
#include "shared/coco/instances.h"
#include "tests/support/test_folder.h"

namespace retina {
namespace {

// Draws instances files as programs write them, and with what makes the reader's work hard.
class Author {
 public:
  // A careless one writes a key twice now and then.
  explicit Author(std::uint64_t seed, bool is_careless = false)
      : random_{.seed = seed}, is_careless_(is_careless) {}

  std::string file() {
    const std::string images = list(1 + below(4), [&](std::uint64_t id) {
      return std::vector<std::string>{
          cat("\"id\": ", id), one_of({R"("file_name": "a.jpg")", R"("file_name":"b c/d.jpg")"}),
          one_of({"\"width\": 640", "\"width\" : 1"}), "\"height\": 480"};
    });
    const std::string annotations = list(below(6), [&](std::uint64_t id) {
      std::vector<std::string> members{
          cat("\"id\": ", id), "\"image_id\": 0", "\"category_id\": 0",
          one_of({"\"bbox\": [1, 2.5, 30.25, 4]", "\"bbox\" :[ 0.1,2e1 , 12345.678901234567,0]"})};
      if (below(2) != 0) {
        members.push_back(one_of({"\"area\": 12", "\"area\": 70.5", "\"area\": 1.2e3"}));
      }
      if (below(2) != 0) {
        members.push_back(one_of({"\"iscrowd\": 0", "\"iscrowd\": 1", "\"iscrowd\": true"}));
      }
      return members;
    });
    const std::string categories = list(1 + below(3), [&](std::uint64_t id) {
      std::vector<std::string> members{cat("\"id\": ", id), cat("\"name\": \"class ", id, "\"")};
      if (below(2) != 0) members.push_back(R"("supercategory": "things")");
      return members;
    });
    return object({"\"images\": " + images, "\"annotations\": " + annotations,
                   "\"categories\":" + categories}) +
           space();
  }

  std::uint64_t below(std::uint64_t bound) { return random_.bits(place_++) % bound; }

 private:
  std::string one_of(const std::vector<std::string>& texts) { return texts[below(texts.size())]; }
  std::string space() { return one_of({"", "", " ", "\n", "\n    ", "\t\r\n"}); }

  template <class Members>
  std::string list(std::uint64_t count, const Members& members) {
    std::string text = "[" + space();
    for (std::uint64_t id = 0; id < count; ++id) {
      text += cat(id == 0 ? "" : ",", space(), object(members(id)));
    }
    return text + space() + "]";
  }

  // The members in any order, and some that nobody reads.
  std::string object(std::vector<std::string> members) {
    if (is_careless_ && below(8) == 0) members.push_back(members[below(members.size())]);
    while (below(3) == 0) {
      members.push_back(
          one_of({R"("segmentation": [[1.5, 2, 3], []])", R"("info": {"id": "}, {\"id\": 3"})",
                  R"("segmentation": {"counts": [1, 2], "size": [4, 5]})", R"("x": null)"}));
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

TEST(PlainInstances, AreThoseOfTheCarefulReader) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const std::string text = Author(seed).file();
    const auto quick = parse_plain_instances(text);
    ASSERT_TRUE(quick) << "seed " << seed << '\n' << text;
    EXPECT_EQ(instances_to_json(*quick), instances_to_json(parse_instances(text, "i.json")))
        << text;
  }
}

TEST(PlainInstances, AKeyThatComesTwiceIsLeftToTheCarefulReader) {
  int quick_count = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const std::string text = Author(seed, true).file();
    const auto quick = parse_plain_instances(text);
    quick_count += quick ? 1 : 0;
    try {
      const Instances careful = parse_instances(text, "i.json");
      EXPECT_TRUE(quick) << text;
    } catch (const Error& error) {
      EXPECT_FALSE(quick) << error.what() << '\n' << text;
    }
  }
  EXPECT_GT(quick_count, 50);
  EXPECT_LT(quick_count, 450);
}

// What a reader of instances says: their JSON, or the message.
std::string outcome(const std::function<Instances()>& read) {
  try {
    return instances_to_json(read());
  } catch (const Error& error) {
    return cat(error.what(), " hint: ", error.hint());
  }
}

TEST(StreamedInstances, AreThoseOfTheWholeTextWhereverItsPiecesEnd) {
  const TestFolder folder;
  const std::string path = folder / "i.json";
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::string text = (seed % 2 == 0 ? "" : "\xEF\xBB\xBF") + Author(seed).file();
    write_file_atomically(path, text);
    const std::string whole = outcome([&] { return parse_instances(text, path); });
    for (std::size_t piece_bytes = 3; piece_bytes < text.size() + 3;
         piece_bytes += 1 + text.size() / 400) {
      ASSERT_EQ(outcome([&] { return stream_instances(path, piece_bytes); }), whole)
          << "seed " << seed << ", pieces of " << piece_bytes;
    }
  }
}

TEST(StreamedInstances, OfDamagedFilesSayWhatTheWholeTextSays) {
  const TestFolder folder;
  const std::string path = folder / "i.json";
  const std::string bytes("\"\\{}[],:.-+eE01 9ntN\n\x80\x01\0", 24);
  int refused = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    Author author(seed);
    std::string text = author.file();
    const std::size_t at = author.below(text.size());
    switch (author.below(3)) {
      case 0:
        text[at] = bytes[author.below(bytes.size())];
        break;
      case 1:
        text.resize(at);
        break;
      default:
        text.insert(at, 1, bytes[author.below(bytes.size())]);
    }
    write_file_atomically(path, text);
    const std::string whole = outcome([&] { return parse_instances(text, path); });
    refused += whole.starts_with("{") ? 0 : 1;
    EXPECT_EQ(outcome([&] { return stream_instances(path, 3 + author.below(40)); }), whole)
        << "seed " << seed;
  }
  EXPECT_GT(refused, 1500);
}

TEST(PlainInstances, DamageIsReadAsTheCarefulReaderDoesOrLeftToIt) {
  const TestFolder folder;
  const std::string path = folder / "i.json";
  static const std::string kBytes = "\"\\{}[],:.-+eE01 9ntN\n\x80\x01";
  int refused = 0, quick_count = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(cat("seed ", seed));
    Author author(seed);
    std::string text = author.file();
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
    const auto quick = parse_plain_instances(text);
    quick_count += quick ? 1 : 0;
    write_file_atomically(path, text);
    std::string told;
    try {
      const Instances careful = parse_instances(text, path);
      if (quick) {
        EXPECT_EQ(instances_to_json(*quick), instances_to_json(careful)) << text;
      }
      EXPECT_EQ(instances_to_json(read_instances(path)), instances_to_json(careful));
      continue;
    } catch (const Error& error) {
      told = error.what();
    }
    ++refused;
    try {
      read_instances(path);
      ADD_FAILURE() << "read: " << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), told);
    }
  }
  std::printf("%d refused, %d read quickly\n", refused, quick_count);
  EXPECT_GT(refused, 1000);
  EXPECT_GT(quick_count, 500);
}

}  // namespace
}  // namespace retina
