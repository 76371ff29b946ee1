#include "shared/watch/protocol.h"

#include <gtest/gtest.h>

#include <limits>

#include "shared/numeric/random.h"

namespace retina {
namespace {

TEST(WatchProtocol, FramesSurviveAnyCutOfTheStream) {
  RankState state;
  state.rank = 3;
  state.step = 812;
  const std::string bytes = encode(FrameType::kState, state) +
                            encode(FrameType::kHub, HubState{.state = state, .first_heard = 1});
  for (std::size_t piece = 1; piece < bytes.size(); piece += 97) {
    FrameReader reader;
    std::vector<Frame> frames;
    for (std::size_t done = 0; done < bytes.size(); done += piece) {
      reader.add(bytes.data() + done, std::min(piece, bytes.size() - done));
      while (auto frame = reader.next()) frames.push_back(*frame);
    }
    ASSERT_EQ(frames.size(), 2U);
    ASSERT_TRUE(decode_state(frames[0], 3));
    EXPECT_EQ(decode_state(frames[0], 3)->step, 812);
    ASSERT_TRUE(decode_hub_state(frames[1]));
    EXPECT_EQ(decode_hub_state(frames[1])->state.step, 812);
    EXPECT_EQ(decode_hub_state(frames[1])->first_heard, 1);
    EXPECT_FALSE(reader.broken());
  }
}

TEST(WatchProtocol, GarbageBreaksTheStreamAndNothingElse) {
  const std::uint64_t seed = 6;
  std::cout << "seed " << seed << '\n';
  const RandomStream random{.seed = seed};
  for (std::uint64_t round = 0; round < 200; ++round) {
    std::string bytes(64 + round, '\0');
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<char>(random.bits(round * 1000 + i));
    }
    FrameReader reader;
    reader.add(bytes.data(), bytes.size());
    EXPECT_FALSE(reader.next());
    EXPECT_TRUE(reader.broken());
  }
}

TEST(WatchProtocol, RefusesAnAbsurdLength) {
  std::string bytes = encode(FrameType::kState, RankState{});
  bytes[11] = '\x7f';  // the length's highest byte
  FrameReader reader;
  reader.add(bytes.data(), bytes.size());
  EXPECT_FALSE(reader.next());
  EXPECT_TRUE(reader.broken());
}

TEST(WatchProtocol, RefusesPayloadsOfAnotherSizeAndStatesOfAnotherRank) {
  const Frame shorter{.type = FrameType::kState, .payload = "short"};
  EXPECT_FALSE(decode_state(shorter, 0));
  EXPECT_FALSE(decode_hub_state({.type = FrameType::kHub, .payload = "short"}));
  FrameReader reader;
  const std::string bytes = encode(FrameType::kState, RankState{});
  reader.add(bytes.data(), bytes.size());
  EXPECT_FALSE(decode_state(*reader.next(), 1));
}

TEST(WatchProtocol, MakesNumbersAndTextsOfAPeerSafe) {
  RankState state;
  state.quiet_s = std::numeric_limits<double>::quiet_NaN();
  state.in_phase_s = -std::numeric_limits<double>::infinity();
  state.recent[0].operation.label.fill('x');
  state.phase = static_cast<Phase>(999);
  FrameReader reader;
  const std::string bytes = encode(FrameType::kState, state);
  reader.add(bytes.data(), bytes.size());
  const auto safe = decode_state(*reader.next(), 0);
  ASSERT_TRUE(safe);
  EXPECT_EQ(safe->quiet_s, 0);
  EXPECT_EQ(safe->in_phase_s, 0);
  EXPECT_EQ(safe->recent[0].operation.name(), std::string(31, 'x'));
  EXPECT_EQ(phase_name(safe->phase), "unknown");
}

TEST(Operation, HashTellsEveryFieldApart) {
  const Operation base;
  std::vector<Operation> others(6, base);
  others[0].kind = CollectiveKind::kGather;
  others[1].type = ElementType::kFloat64;
  others[2].reduce = ReduceOp::kMax;
  others[3].root = 1;
  others[4].count = 1;
  others[5].set_label("bucket 1");
  for (const Operation& other : others) EXPECT_NE(other.hash(), base.hash());
}

}  // namespace
}  // namespace retina
