#include "shared/coco/plain_results.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "shared/base/cores.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/parallel.h"

namespace retina {
namespace {

constexpr int kMaxDepth = 32;  // of values that are skipped
// Behind the text: a NUL, and what may be looked at together with it.
constexpr std::size_t kSlackBytes = 64;
// A record of a piece may reach this far into the next one.
constexpr std::size_t kOverhangBytes = std::size_t{16} << 10;

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Reads JSON from text with a NUL and kSlackBytes behind it. Each function moves behind what it
// read, or says no.
class Scanner {
 public:
  explicit Scanner(const char* at) : at_(at) {}

  const char* at() const { return at_; }

  void skip_spaces() {
    while (is_space(*at_)) ++at_;
  }

  // Spaces, the character, spaces.
  bool take(char wanted) {
    skip_spaces();
    if (*at_ != wanted) return false;
    ++at_;
    skip_spaces();
    return true;
  }

  // A string's content, escapes as they are.
  bool take_string(std::string_view& text) {
    if (*at_ != '"') return false;
    const char* const begin = ++at_;
    for (; *at_ != '"'; ++at_) {
      if (*at_ == '\\') {
        ++at_;
        if (*at_ == '\0' || std::strchr("\"\\/bfnrt", *at_) == nullptr) return false;
      } else if (static_cast<unsigned char>(*at_) < 0x20 ||
                 static_cast<unsigned char>(*at_) >= 0x80) {
        return false;
      }
    }
    text = {begin, static_cast<std::size_t>(at_ - begin)};
    ++at_;
    return true;
  }

  // One of a few words that are known.
  bool take_word(std::string_view word) {
    if (std::memcmp(at_, word.data(), word.size()) != 0) return false;
    at_ += word.size();
    return true;
  }

  // Correctly rounded, as strtod.
  bool take_number(double& number) {
    const char* const begin = at_;
    const bool negative = *at_ == '-';
    if (negative) ++at_;
    // Digits beyond the 19th may not fit: the slow way below takes them.
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
    // Both exact, so that the quotient is rounded once (Clinger 1990, "How to read floating point
    // numbers accurately").
    constexpr std::uint64_t kExactDigits = std::uint64_t{1} << 53;
    if (decimals >= 0 && decimals < kPowers && digit_count <= 19 && digits <= kExactDigits) {
      number = static_cast<double>(digits) / kPowersOfTen[decimals];
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

  bool skip_value(int depth = 0) {
    if (depth > kMaxDepth) return false;
    std::string_view text;
    double number = 0;
    switch (*at_) {
      case '"':
        return take_string(text);
      case '{':
        return take_members([&](std::string_view) { return skip_value(depth + 1); });
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

  template <class Value>
  bool take_members(const Value& value) {
    if (!take('{')) return false;
    if (take('}')) return true;
    do {
      std::string_view key;
      if (!take_string(key) || !take(':') || !value(key)) return false;
    } while (take(','));
    skip_spaces();
    return *at_++ == '}';
  }

  template <class Value>
  bool take_elements(const Value& value) {
    if (!take('[')) return false;
    if (take(']')) return true;
    do {
      if (!value()) return false;
    } while (take(','));
    skip_spaces();
    return *at_++ == ']';
  }

 private:
  // Appends the digits that come now to `number`, up to eight at once; returns how many.
  std::ptrdiff_t take_digits(std::uint64_t& number) {
    const char* const begin = at_;
    if constexpr (std::endian::native != std::endian::little) {
      while (is_digit(*at_)) number = number * 10 + static_cast<std::uint64_t>(*at_++ - '0');
      return at_ - begin;
    }
    constexpr std::uint64_t kEach = 0x0101010101010101;
    for (;;) {
      std::uint64_t bytes = 0;
      std::memcpy(&bytes, at_, sizeof bytes);
      bytes ^= kEach * '0';  // a digit is now its value
      const std::uint64_t others =
          (((bytes & kEach * 0x7f) + kEach * (0x80 - 10)) | bytes) & kEach * 0x80;
      const int count = std::countr_zero(others) / 8;
      if (count == 0) return at_ - begin;
      // Zeros in front, then neighbours are joined: 2 digits, 4, 8.
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
  }

  static constexpr std::ptrdiff_t kPowers = 23;
  static constexpr double kPowersOfTen[kPowers] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                   1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                   1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  static constexpr std::uint64_t kShift[9] = {1,      10,      100,      1000,     10000,
                                              100000, 1000000, 10000000, 100000000};
  const char* at_;
};

// One record, the scanner on its "{".
bool take_record(Scanner& scanner, Detection& detection) {
  enum Key : unsigned { kImage = 1, kCategory = 2, kBox = 4, kScore = 8, kAll = 15 };
  unsigned given = 0;
  const auto take_value = [&] {
    if (scanner.take_word("\"image_id\"")) {
      given |= kImage;
      return scanner.take(':') && scanner.take_integer(detection.image_id);
    }
    if (scanner.take_word("\"category_id\"")) {
      given |= kCategory;
      return scanner.take(':') && scanner.take_integer(detection.category_id);
    }
    if (scanner.take_word("\"bbox\"")) {
      given |= kBox;
      std::size_t count = 0;
      return scanner.take(':') && scanner.take_elements([&] {
        return count < 4 && scanner.take_number(detection.bbox[count++]);
      }) && count == 4;
    }
    if (scanner.take_word("\"score\"")) {
      given |= kScore;
      return scanner.take(':') && scanner.take_number(detection.score);
    }
    std::string_view key;
    return scanner.take_string(key) && key.find('\\') == std::string_view::npos &&
           scanner.take(':') && scanner.skip_value();
  };
  if (!scanner.take('{')) return false;
  do {
    if (!take_value()) return false;
  } while (scanner.take(','));
  return scanner.take_word("}") && given == kAll && detection.bbox[2] >= 0 &&
         detection.bbox[3] >= 0;
}

class File {
 public:
  explicit File(const std::string& path)
      : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // All `size` bytes and zeros behind them.
  bool read(std::size_t from, std::size_t size, char* bytes) const {
    std::memset(bytes + size, 0, kSlackBytes);
    for (std::size_t done = 0; done < size;) {
      const ssize_t got =
          ::pread(descriptor_, bytes + done, size - done, static_cast<off_t>(from + done));
      if (got <= 0) return false;
      done += static_cast<std::size_t>(got);
    }
    return true;
  }

 private:
  int descriptor_;
};

// The records of a piece, and where they begin and end in the file.
struct Piece {
  std::vector<Detection> detections{};
  std::size_t begin = 0, end = 0;
  bool is_read = false, understood = false;
};

// The first byte of a record behind the border "} , {" at or after `from`, or npos.
std::size_t border_from(std::string_view text, std::size_t from) {
  for (std::size_t at = from; (at = text.find('}', at)) != std::string_view::npos; ++at) {
    Scanner scanner(text.data() + at + 1);
    if (scanner.take(',') && *scanner.at() == '{') {
      return static_cast<std::size_t>(scanner.at() - text.data());
    }
  }
  return std::string_view::npos;
}

class Reader {
 public:
  Reader(const std::string& path, const PlainResultsOptions& options)
      : file_(path),
        size_(file_size_bytes(path)),
        piece_bytes_(options.piece_bytes),
        thread_count_(static_cast<std::size_t>(options.thread_count > 0 ? options.thread_count
                                                                        : usable_cores())) {}

  std::optional<std::vector<Detection>> read() {
    // The last piece has the rest, so that no piece is shorter than a record.
    pieces_.resize(std::max<std::size_t>(1, size_ / piece_bytes_));
    const std::size_t thread_count = std::min(pieces_.size(), thread_count_);
    for_each_parallel(thread_count, static_cast<int>(thread_count), [&](std::size_t) {
      try {
        read_pieces();
      } catch (...) {
        give_up();
        throw;
      }
    });
    if (!understood_) return std::nullopt;
    return std::move(all_);
  }

 private:
  // One thread: takes the next piece until there is none.
  void read_pieces() {
    const auto buffer = std::make_unique_for_overwrite<char[]>(buffer_bytes());
    std::unique_lock lock(mutex_);
    while (understood_ && begun_ < pieces_.size()) {
      const std::size_t place = begun_++;
      // Nearly nothing is held twice, however far behind another thread falls.
      joined_more_.wait(
          lock, [&] { return !understood_ || place < joined_ + kAheadPerThread * thread_count_; });
      lock.unlock();
      Piece piece = read_piece(place, pieces_.size(), buffer.get());
      lock.lock();
      pieces_[place] = std::move(piece);
      join();
    }
  }

  // Moves what is there without a gap into all_.
  void join() {
    for (; joined_ < pieces_.size() && pieces_[joined_].is_read; ++joined_) {
      Piece& next = pieces_[joined_];
      if (!next.understood || (joined_ > 0 && pieces_[joined_ - 1].end != next.begin)) {
        understood_ = false;
        break;
      }
      // Memory that is never written to costs nothing: rather too much of it than a move.
      if (joined_ == 0) all_.reserve((next.detections.size() + 64) * pieces_.size() * 5 / 4);
      all_.insert(all_.end(), next.detections.begin(), next.detections.end());
      next.detections = {};
    }
    joined_more_.notify_all();
  }

  void give_up() {
    const std::lock_guard lock(mutex_);
    understood_ = false;
    joined_more_.notify_all();
  }

  // The longest is the last.
  std::size_t buffer_bytes() const { return 2 * piece_bytes_ + kOverhangBytes + kSlackBytes; }

  Piece read_piece(std::size_t place, std::size_t piece_count, char* buffer) const {
    const bool is_last = place + 1 == piece_count;
    const std::size_t first = place * piece_bytes_,
                      last = is_last ? size_ : first + piece_bytes_ + kOverhangBytes;
    Piece piece{.is_read = true};
    const std::string_view text(buffer, std::min(last, size_) - first);
    if (!file_.read(first, text.size(), buffer)) return piece;
    const auto place_of = [&](const Scanner& scanner) {
      return static_cast<std::size_t>(scanner.at() - text.data());
    };

    std::size_t at = 0;
    if (place == 0) {
      Scanner scanner(text.data() + (text.starts_with("\xEF\xBB\xBF") ? 3 : 0));
      if (!scanner.take('[')) return piece;
      at = place_of(scanner);
      if (is_last && scanner.take(']')) {
        piece.understood = place_of(scanner) == text.size();
        return piece;
      }
    } else {
      at = border_from(text, 0);
      if (at == std::string_view::npos) return piece;
    }
    piece.begin = first + at;

    Scanner scanner(text.data() + at);
    piece.detections.reserve(piece_bytes_ / kUsualRecordBytes);
    for (;;) {
      Detection detection;
      if (!take_record(scanner, detection)) return piece;
      piece.detections.push_back(detection);
      const std::size_t closed = place_of(scanner) - 1;
      if (!scanner.take(',')) break;
      piece.end = first + place_of(scanner);
      if (!is_last && closed >= piece_bytes_) break;
    }
    // Behind the last record the list ends, and the file.
    if (is_last && (!scanner.take(']') || place_of(scanner) != text.size())) return piece;
    piece.understood = true;
    return piece;
  }

  static constexpr std::size_t kUsualRecordBytes = 96;
  static constexpr std::size_t kAheadPerThread = 4;
  File file_;
  std::size_t size_, piece_bytes_, thread_count_;
  std::mutex mutex_;  // of all below
  std::condition_variable joined_more_;
  std::vector<Piece> pieces_;
  std::size_t begun_ = 0, joined_ = 0;
  std::vector<Detection> all_;  // of the first joined_ pieces
  bool understood_ = true;
};

}  // namespace

std::optional<std::vector<Detection>> read_plain_results(const std::string& path,
                                                         const PlainResultsOptions& options) {
  try {
    return Reader(path, options).read();
  } catch (const Error&) {
    return std::nullopt;  // not there, or not readable: the other reader says so
  }
}

}  // namespace retina
