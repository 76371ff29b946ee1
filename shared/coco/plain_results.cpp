#include "shared/coco/plain_results.h"

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/host.h"
#include "shared/base/huge_pages.h"
#include "shared/base/parallel.h"
#include "shared/coco/plain_scanner.h"

namespace retina {
namespace {

// A record of a piece may reach this far into the next one.
constexpr std::size_t kOverhangBytes = std::size_t{16} << 10;

// One record, the scanner on its "{".
bool take_record(PlainScanner& scanner, Detection& detection) {
  enum Key : unsigned { kImage = 1, kCategory = 2, kBox = 4, kScore = 8, kAll = 15 };
  unsigned given = 0;
  const auto is_first = [&](Key key) { return (std::exchange(given, given | key) & key) == 0; };
  const bool whole = scanner.take_object([&] {
    if (scanner.take_key("\"image_id\"")) {
      return is_first(kImage) && scanner.take_integer(detection.image_id);
    }
    if (scanner.take_key("\"category_id\"")) {
      return is_first(kCategory) && scanner.take_integer(detection.category_id);
    }
    if (scanner.take_key("\"bbox\"")) return is_first(kBox) && scanner.take_box(detection.bbox);
    if (scanner.take_key("\"score\"")) {
      return is_first(kScore) && scanner.take_number(detection.score);
    }
    return scanner.skip_member();
  });
  return whole && given == kAll && detection.bbox[2] >= 0 && detection.bbox[3] >= 0;
}

// The records of a piece, and where they begin and end in the file.
struct Piece {
  std::vector<Detection> detections{};
  std::size_t begin = 0, end = 0;
  bool is_read = false, understood = false;
};

// The first byte of a record behind the border "} , {" at or after `from`, or npos.
std::size_t border_from(std::string_view text, std::size_t from) {
  for (std::size_t at = from; (at = text.find('}', at)) != std::string_view::npos; ++at) {
    PlainScanner scanner(text.substr(at + 1));
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
        size_(file_.size_bytes()),
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
      Piece piece;
      if (!spare_.empty()) {
        piece.detections = std::move(spare_.back());
        spare_.pop_back();
      }
      lock.unlock();
      read_piece(place, buffer.get(), piece);
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
      if (joined_ == 0) {
        all_.reserve((next.detections.size() + 64) * pieces_.size() * 5 / 4);
        use_huge_pages(all_);
      }
      all_.insert(all_.end(), next.detections.begin(), next.detections.end());
      next.detections.clear();
      spare_.push_back(std::move(next.detections));
    }
    joined_more_.notify_all();
  }

  void give_up() {
    const std::lock_guard lock(mutex_);
    understood_ = false;
    joined_more_.notify_all();
  }

  // The longest is the last.
  std::size_t buffer_bytes() const { return 2 * piece_bytes_ + kOverhangBytes + 1; }

  void read_piece(std::size_t place, char* buffer, Piece& piece) const {
    const bool is_last = place + 1 == pieces_.size();
    const std::size_t first = place * piece_bytes_,
                      last = is_last ? size_ : first + piece_bytes_ + kOverhangBytes;
    piece.is_read = true;
    const std::string_view text(buffer, std::min(last, size_) - first);
    if (file_.read_at(first, buffer, text.size()) != text.size()) return;
    buffer[text.size()] = '\0';
    const auto place_of = [&](const PlainScanner& scanner) {
      return static_cast<std::size_t>(scanner.at() - text.data());
    };

    std::size_t at = 0;
    if (place == 0) {
      PlainScanner scanner(text.substr(text.starts_with("\xEF\xBB\xBF") ? 3 : 0));
      if (!scanner.take('[')) return;
      at = place_of(scanner);
      if (is_last && scanner.take(']')) {
        piece.understood = place_of(scanner) == text.size();
        return;
      }
    } else {
      at = border_from(text, 0);
      if (at == std::string_view::npos) return;
    }
    piece.begin = first + at;

    PlainScanner scanner(text.substr(at));
    piece.detections.reserve(piece_bytes_ / kUsualRecordBytes);
    for (;;) {
      Detection detection;
      if (!take_record(scanner, detection)) return;
      piece.detections.push_back(detection);
      const std::size_t closed = place_of(scanner) - 1;
      if (!scanner.take(',')) break;
      piece.end = first + place_of(scanner);
      if (!is_last && closed >= piece_bytes_) break;
    }
    // Behind the last record the list ends, and the file.
    if (is_last && (!scanner.take(']') || place_of(scanner) != text.size())) return;
    piece.understood = true;
  }

  static constexpr std::size_t kUsualRecordBytes = 96;
  static constexpr std::size_t kAheadPerThread = 4;
  FileReader file_;
  std::size_t size_, piece_bytes_, thread_count_;
  std::mutex mutex_;  // of all below
  std::condition_variable joined_more_;
  std::vector<Piece> pieces_;
  std::size_t begun_ = 0, joined_ = 0;
  std::vector<Detection> all_;                 // of the first joined_ pieces
  std::vector<std::vector<Detection>> spare_;  // empty, to be filled again
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
