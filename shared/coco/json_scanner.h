// The core of entry_reader.cpp: walks over JSON as programs write it, once and without a document.
// A text that it refuses may still be JSON: that is left to RapidJSON, and so are all errors.
#pragma once

#include <array>
#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "shared/base/text_encoding.h"

namespace retina {

// Scans a text that is followed by a NUL. Each function moves past what it read, or returns false.
class JsonScanner {
 public:
  explicit JsonScanner(std::string_view text) : at_(text.data()), end_(text.data() + text.size()) {}

  const char* at() const { return at_; }

  void skip_spaces() {
    while (static_cast<unsigned char>(*at_) <= ' ' && is_space(*at_)) ++at_;
  }

  // Takes spaces, the character, spaces.
  bool take(char wanted) {
    skip_spaces();
    if (*at_ != wanted) return false;
    ++at_;
    skip_spaces();
    return true;
  }

  // Takes a string and returns its content, which is UTF-8, with its escapes as they are written.
  // Refuses escapes of UTF-16's surrogates.
  bool take_string(std::string_view& text) {
    if (*at_ != '"') return false;
    const char* const begin = ++at_;
    unsigned all = 0;
    for (; *at_ != '"'; ++at_) {
      const auto c = static_cast<unsigned char>(*at_);
      if (c < 0x20 || (c == '\\' && !take_escape())) return false;
      all |= c;
    }
    text = {begin, static_cast<std::size_t>(at_ - begin)};
    ++at_;
    return all < 0x80 || is_utf8(text);
  }

  // Takes this key, without escapes, and its colon.
  bool take_key(std::string_view key) {
    if (static_cast<std::size_t>(end_ - at_) < key.size() + 2) return false;
    if (*at_ != '"' || std::memcmp(at_ + 1, key.data(), key.size()) != 0) return false;
    if (at_[key.size() + 1] != '"') return false;
    at_ += key.size() + 2;
    return take(':');
  }

  bool take_word(std::string_view word) {
    if (static_cast<std::size_t>(end_ - at_) < word.size()) return false;
    if (std::memcmp(at_, word.data(), word.size()) != 0) return false;
    at_ += word.size();
    return true;
  }

  bool is_at_number() const { return *at_ == '-' || is_digit(*at_); }

  // Takes a number, correctly rounded, as strtod does it.
  bool take_number(double& number) {
    const char* const begin = at_;
    const bool negative = *at_ == '-';
    if (negative) ++at_;
    // Digits beyond the 19th may not fit: the slow way below handles them.
    std::uint64_t digits = 0;
    const char* const whole = at_;
    auto digit_count = take_digits(digits);
    if (digit_count == 0 || (digit_count > 1 && *whole == '0')) return false;
    std::ptrdiff_t decimals = 0;
    if (*at_ == '.') {
      ++at_;
      decimals = take_digits(digits);
      if (decimals == 0) return false;
      digit_count += decimals;
    }
    if (*at_ == 'e' || *at_ == 'E') {
      ++at_;
      if (*at_ == '+' || *at_ == '-') ++at_;
      if (!is_digit(*at_)) return false;
      while (is_digit(*at_)) ++at_;
      decimals = -1;
    }
    if (decimals >= 0 && digit_count <= 19 && quotient(digits, decimals, number)) {
      if (negative) number = -number;
      return true;
    }
    const auto [end, error] = std::from_chars(begin, at_, number);
    return error == std::errc() && end == at_;
  }

  bool take_integer(std::int64_t& integer) {
    const bool negative = *at_ == '-';
    if (negative) ++at_;
    const char* const begin = at_;
    std::uint64_t digits = 0;
    const auto count = take_digits(digits);
    if (count == 0 || count > 18 || (count > 1 && *begin == '0')) return false;
    if (*at_ == '.' || *at_ == 'e' || *at_ == 'E') return false;
    integer = static_cast<std::int64_t>(digits);
    if (negative) integer = -integer;
    return true;
  }

  // Takes an array of four numbers.
  bool take_box(std::array<double, 4>& box) {
    std::size_t count = 0;
    return take_elements([&] { return count < 4 && take_number(box[count++]); }) && count == 4;
  }

  // Takes an object; `take_member` takes a key and its value.
  template <class TakeMember>
  bool take_object(const TakeMember& take_member) {
    if (!take('{')) return false;
    if (take('}')) return true;
    do {
      if (!take_member()) return false;
    } while (take(','));
    return close('}');
  }

  // Takes an array; `take_element` takes one of its elements.
  template <class TakeElement>
  bool take_elements(const TakeElement& take_element) {
    if (!take('[')) return false;
    if (take(']')) return true;
    do {
      if (!take_element()) return false;
    } while (take(','));
    return close(']');
  }

  // Skips a value.
  bool skip_value() { return skip_value(1); }

 private:
  bool close(char bracket) {
    skip_spaces();
    if (*at_ != bracket) return false;
    ++at_;
    return true;
  }

  bool skip_value(int depth) {
    if (depth > kMaxDepth) return false;
    std::string_view text;
    double number = 0;
    switch (*at_) {
      case '"':
        return take_string(text);
      case '{':
        return take_object([&] { return take_string(text) && take(':') && skip_value(depth + 1); });
      case '[':
        return take_elements([&] { return skip_value(depth + 1); });
      case 't':
        return take_word("true");
      case 'f':
        return take_word("false");
      case 'n':
        return take_word("null");
      default:
        return take_number(number);
    }
  }

  static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }

  // Moves from the backslash of an escape to its last character.
  bool take_escape() {
    ++at_;
    if (*at_ != 'u') return *at_ != '\0' && std::strchr("\"\\/bfnrt", *at_) != nullptr;
    unsigned unit = 0;
    const char* const begin = at_ + 1;
    if (end_ - begin < 4) return false;
    const auto [end, error] = std::from_chars(begin, begin + 4, unit, 16);
    at_ += 4;
    return error == std::errc() && end == begin + 4 && (unit < 0xd800 || unit > 0xdfff);
  }

  // Appends the digits that come next to `number`, up to eight at once; returns their count.
  std::ptrdiff_t take_digits(std::uint64_t& number) {
    const char* const begin = at_;
    constexpr std::uint64_t kEach = 0x0101010101010101;
    while (std::endian::native == std::endian::little && end_ - at_ >= 8) {
      std::uint64_t bytes = 0;
      std::memcpy(&bytes, at_, sizeof bytes);
      bytes ^= kEach * '0';  // a digit is now its value
      const std::uint64_t others =
          (((bytes & kEach * 0x7f) + kEach * (0x80 - 10)) | bytes) & kEach * 0x80;
      const int count = std::countr_zero(others) / 8;
      if (count == 0) return at_ - begin;
      // Moves zeros in front, then joins neighbours: 2 digits, 4, 8.
      bytes <<= 8 * (8 - count);
      bytes = bytes * 10 + (bytes >> 8);
      constexpr std::uint64_t kPairs = 0x000000ff000000ff;
      bytes = ((bytes & kPairs) * (100 + (std::uint64_t{1000000} << 32)) +
               ((bytes >> 16) & kPairs) * (1 + (std::uint64_t{10000} << 32))) >>
              32;
      number = number * kShift[count] + bytes;
      at_ += count;
      if (count < 8) return at_ - begin;
    }
    while (is_digit(*at_)) number = number * 10 + static_cast<std::uint64_t>(*at_++ - '0');
    return at_ - begin;
  }

  // Computes number / 10^decimals, rounded once; returns false if it cannot.
  static bool quotient(std::uint64_t number, std::ptrdiff_t decimals, double& result) {
    // Both exact in f64 (Clinger 1990, "How to read floating point numbers accurately").
    if (number <= std::uint64_t{1} << 53 && decimals < 23) {
      result = static_cast<double>(number) / kPowersOfTen[decimals];
      return true;
    }
    if (decimals >= kReciprocals) return false;
    // The quotient's upper 64 bits: at most 3 too low, as the reciprocal is by less than 1 of its
    // last bit (after Lemire 2021, "Number parsing at a gigabyte per second").
    const auto& [reciprocal, scale] = kReciprocal[static_cast<std::size_t>(decimals)];
    const int shift = std::countl_zero(number);
    const Wide product = static_cast<Wide>(number << shift) * reciprocal;
    const int is_short = static_cast<int>(~(product >> 127) & 1);
    const auto bits = static_cast<std::uint64_t>((product << is_short) >> 64);
    // f64 has 53 of them; the others decide the rounding, unless they may be exactly one half.
    const std::uint64_t rest = bits & 2047;
    if (rest >= 1024 - 3 && rest <= 1024) return false;
    const auto exponent = static_cast<std::uint64_t>(1023 + 127 - scale - shift - is_short);
    // The upper one of the 53 bits is 1, and counts in the exponent.
    result = std::bit_cast<double>(((exponent - 1) << 52) + (bits >> 11) + (rest > 1024 ? 1 : 0));
    return true;
  }

  __extension__ using Wide = unsigned __int128;
  // 10^-decimals = bits / 2^scale, rounded down to 64 bits.
  struct Reciprocal {
    std::uint64_t bits;
    int scale;
  };
  static constexpr std::ptrdiff_t kReciprocals = 19;
  static constexpr auto kReciprocal = [] {
    std::array<Reciprocal, kReciprocals> all{};
    Wide power = 1;
    for (Reciprocal& one : all) {
      Wide bits = (Wide{1} << 127) / power;
      for (one.scale = 127; bits >> 64 != 0; --one.scale) bits >>= 1;
      one.bits = static_cast<std::uint64_t>(bits);
      power *= 10;
    }
    return all;
  }();

  static constexpr int kMaxDepth = 32;  // depth of values that are skipped
  static constexpr double kPowersOfTen[23] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                              1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                              1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  static constexpr std::uint64_t kShift[9] = {1,      10,      100,      1000,     10000,
                                              100000, 1000000, 10000000, 100000000};
  const char* at_;
  const char* end_;
};

}  // namespace retina
