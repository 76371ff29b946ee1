#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <array>

namespace retina {
namespace {

constexpr std::size_t kMaxPlaces = 8;
constexpr std::size_t kMaxPiece = 64;                // bytes dropped, repeated or taken at once
constexpr std::size_t kMaxBytes = 64 * 1024;         // nothing grows past it
constexpr std::size_t kFloods = 200, kFlood = 8000;  // one in so many repetitions is that long

char random_byte(Dice& dice) {
  return static_cast<char>(static_cast<unsigned char>(dice.below(256)));
}

// A piece of `from`; empty when there is nothing.
std::string piece_of(const std::string& from, Dice& dice) {
  if (from.empty()) return "";
  const std::size_t start = dice.below(from.size());
  return from.substr(start, 1 + dice.below(kMaxPiece));
}

// 1, 2, 4 or 8 bytes of a number that lengths and places go wrong with.
std::string odd_number(const std::string& bytes, Dice& dice) {
  const std::array<std::uint64_t, 10> numbers = {0,
                                                 1,
                                                 0x7f,
                                                 0xff,
                                                 0x7fffffff,
                                                 0xffffffff,
                                                 0x7fffffffffffffff,
                                                 ~0ULL,
                                                 bytes.size(),
                                                 bytes.size() + 1};
  std::uint64_t number = numbers[dice.below(numbers.size())];
  std::string digits;
  for (std::size_t i = std::size_t{1} << dice.below(4); i > 0; --i) {
    digits += static_cast<char>(static_cast<unsigned char>(number));
    number >>= 8;
  }
  return digits;
}

void mutate_once(std::string& bytes, Dice& dice, const std::vector<std::string>& others,
                 const std::vector<std::string>& dictionary) {
  const std::size_t place = dice.below(bytes.size() + 1);
  const auto overwrite = [&](const std::string& with) {
    bytes.replace(place, std::min(with.size(), bytes.size() - place), with);
  };
  switch (dice.below(8)) {
    case 0:
      if (place < bytes.size()) {
        const auto bit = static_cast<unsigned char>(1U << dice.below(8));
        bytes[place] = static_cast<char>(static_cast<unsigned char>(bytes[place]) ^ bit);
      }
      break;
    case 1:
      overwrite(std::string(1, random_byte(dice)));
      break;
    case 2:
      overwrite(odd_number(bytes, dice));
      break;
    case 3:
      bytes.erase(place, 1 + dice.below(kMaxPiece));
      break;
    case 4: {
      const std::string piece =
          bytes.substr(place, 1 + dice.below(dice.below(2) == 0 ? 2 : kMaxPiece));
      const std::size_t most = dice.below(kFloods) == 0 ? kFlood : 20;
      std::string repeated;
      for (std::size_t times = 1 + dice.below(most); times > 0; --times) repeated += piece;
      bytes.insert(place, repeated);
      break;
    }
    case 5:
      bytes.insert(place, piece_of(others[dice.below(others.size())], dice));
      break;
    case 6:
      bytes.insert(place, dictionary[dice.below(dictionary.size())]);
      break;
    default:
      overwrite(dictionary[dice.below(dictionary.size())]);
  }
  if (bytes.size() > kMaxBytes) bytes.resize(kMaxBytes);
}

}  // namespace

void mutate(std::string& bytes, Dice& dice, const std::vector<std::string>& others,
            const std::vector<std::string>& dictionary) {
  const std::size_t places = dice.below(2) == 0 ? 1 : 1 + dice.below(kMaxPlaces);
  for (std::size_t i = 0; i < places; ++i) {
    mutate_once(bytes, dice, others, dictionary);
  }
}

}  // namespace retina
