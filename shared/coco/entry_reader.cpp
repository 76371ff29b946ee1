#include "shared/coco/entry_reader.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/foreign_content.h"
#include "shared/base/host.h"
#include "shared/base/json.h"
#include "shared/base/parallel.h"
#include "shared/base/text_encoding.h"
#include "shared/coco/entry_maker.h"

namespace retina {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

// Returns the comma of the last "} , {" of a text, which looks like the border of two entries; or
// npos. It may as well lie in a string or in a list within an entry.
std::size_t last_border(std::string_view text) {
  for (std::size_t at = text.rfind('}'); at != std::string_view::npos; at = text.rfind('}', at)) {
    const std::size_t comma = text.find_first_not_of(kSpace, at + 1);
    if (comma != std::string_view::npos && text[comma] == ',') {
      const std::size_t next = text.find_first_not_of(kSpace, comma + 1);
      if (next != std::string_view::npos && text[next] == '{') return comma;
    }
    if (at-- == 0) break;
  }
  return std::string_view::npos;
}

// Walks the file. Everything at the root and in lists is parsed as JSON later, so the walk itself
// looks at brackets and strings alone.
class EntryFile {
 public:
  // Without `take_value` the lists have entries, for `take`.
  EntryFile(const std::string& path, const std::vector<CocoList>& lists, const TakeEntries& take,
            const TakeValue& take_value, const ReadingPieces& pieces)
      : path_(path),
        lists_(lists),
        take_(take),
        take_value_(take_value),
        piece_bytes_(pieces.piece_bytes),
        file_(path) {
    constexpr int kMostThreads = 8;  // one thread hands the entries over
    thread_count_ =
        pieces.thread_count > 0 ? pieces.thread_count : std::min(usable_cores(), kMostThreads);
    constexpr int kPiecesPerThread = 16;
    pieces_.resize(static_cast<std::size_t>(thread_count_ * kPiecesPerThread));
  }

  void read() {
    hold(kByteOrderMark.size());
    if (ahead().starts_with(kByteOrderMark)) at_ += kByteOrderMark.size();
    if (lists_.size() == 1 && lists_[0].key.empty()) {
      read_list(0);
    } else {
      read_root();
    }
    if (next() != '\0') fail_syntax();
  }

 private:
  // Whole entries of a list, if the border was guessed right.
  struct Piece {
    std::string_view text{};
    std::vector<CocoEntry> entries{};
    bool understood = false;
  };

  void read_root() {
    open('{', "");
    std::vector<bool> seen(lists_.size(), false);
    bool is_more = next() != '}';
    while (is_more) {
      const std::string key = take_value(':');
      ++at_;
      const auto found = std::find_if(lists_.begin(), lists_.end(),
                                      [&](const CocoList& list) { return list.key == key; });
      const auto list = static_cast<std::size_t>(found - lists_.begin());
      if (found == lists_.end()) {
        // Lists are read in pieces: each may have hundreds of megabytes, wanted or not.
        if (next() == '[') {
          read_list(list);
        } else {
          take_value('\0');
        }
      } else if (seen[list]) {
        fail(cat("key \"", key, "\" appears twice"));
      } else {
        seen[list] = true;
        read_list(list);
      }
      is_more = next() == ',';
      if (is_more) ++at_;
    }
    if (next() != '}') fail_syntax();
    ++at_;
    for (std::size_t i = 0; i < lists_.size(); ++i) {
      if (!seen[i]) fail(cat("key \"", lists_[i].key, "\" is missing"));
    }
  }

  bool is_wanted(std::size_t list) const { return list < lists_.size(); }
  bool has_values(std::size_t list) const { return is_wanted(list) && take_value_; }

  // Hands over the entries of a wanted list; any other must be JSON, no more.
  void read_list(std::size_t list) {
    const std::string key = is_wanted(list) ? lists_[list].key : "";
    open('[', key.empty() ? "" : key + ": ");
    if (next() == ']') {
      ++at_;
      return;
    }
    std::size_t index = 0;
    do {
      // The fast way: pieces with guessed borders, several at once.
      const std::size_t piece_count = has_values(list) ? 0 : guess_pieces();
      for_each_parallel(piece_count, thread_count_,
                        [&](std::size_t i) { parse_guess(pieces_[i], list); });
      std::size_t i = 0;
      for (; i < piece_count && pieces_[i].understood; ++i) {
        // An unwanted list has no entries.
        if (!pieces_[i].entries.empty()) take_(list, index, pieces_[i].entries);
        index += pieces_[i].entries.size();
        at_ += pieces_[i].text.size() + 1;
      }
      if (piece_count > 0 && i == piece_count) continue;

      // The slow way, one piece at a time: at the end of the list, for lists in entries, after an
      // error.
      std::size_t size = end_of_value(0);
      while (ahead()[size] == ',' && size < piece_bytes_) size = end_of_value(size + 1);
      if (ahead()[size] != ',' && ahead()[size] != ']') fail_syntax();
      const std::size_t first = index;
      std::optional<EntryMaker> maker;
      if (is_wanted(list)) maker.emplace(path_, lists_[list]);
      const JsonFile values = parse(size);
      for (const rapidjson::Value& value : values.root().raw().GetArray()) {
        if (has_values(list)) {
          take_value_(index, value);
        } else if (maker) {
          CocoEntry entry;
          maker->make(value, index, entry);
          take_(list, index, {&entry, 1});
        }
        ++index;
      }
      if (index == first) fail_syntax();  // a comma without an entry after it
      at_ += size + 1;
    } while (buffer_[at_ - 1] == ',');
  }

  // Gives each piece a text that seems to have whole entries; returns the number of pieces with
  // one. A text begins after the last one's comma: if that text has been parsed, this one begins
  // with an entry, so if this one is parsed in turn, its end is the end of an entry, too.
  std::size_t guess_pieces() {
    hold(pieces_.size() * piece_bytes_ + 1);
    std::string_view rest = ahead();
    std::size_t count = 0;
    while (count < pieces_.size() && rest.size() > piece_bytes_) {
      const std::size_t comma = last_border(rest.substr(0, piece_bytes_));
      if (comma == std::string_view::npos) break;
      pieces_[count++].text = rest.substr(0, comma);
      rest.remove_prefix(comma + 1);
    }
    return count;
  }

  // Parses a guessed piece. A refused entry is read again the slow way, which has its index for the
  // message.
  void parse_guess(Piece& piece, std::size_t list) const {
    piece.entries.clear();
    // The scanner may run on into the next piece's text, up to the NUL at the end of the buffer.
    JsonScanner scanner({piece.text.data(), buffer_.data() + end_});
    std::optional<QuickEntryMaker> maker;
    if (is_wanted(list)) maker.emplace(lists_[list], scanner);
    const char* const end = piece.text.data() + piece.text.size();
    bool is_good = true;
    scanner.skip_spaces();
    do {
      is_good = maker ? maker->make(piece.entries.emplace_back()) : scanner.skip_value();
      scanner.skip_spaces();
    } while (is_good && scanner.at() < end && scanner.take(','));
    piece.understood = is_good && scanner.at() == end;
  }

  // Takes one value, parsed as JSON, up to a comma or bracket, or, for a key, to its colon. Returns
  // its text.
  std::string take_value(char end) {
    const std::size_t size = end_of_value(0);
    if ((ahead()[size] == ':') != (end == ':')) fail_syntax();
    const JsonFile values = parse(size);
    const auto array = values.root().raw().GetArray();
    if (array.Empty() || (end == ':' && !array[0].IsString())) fail_syntax();
    at_ += size;
    return array[0].IsString() ? array[0].GetString() : "";
  }

  // Parses the next `size` bytes, which must be complete values, as an array.
  JsonFile parse(std::size_t size) const {
    return JsonFile::parse_foreign(cat('[', ahead().substr(0, size), ']'), path_);
  }

  // Returns how far ahead the value ends that begins `begin` bytes ahead: at one of ",:]}".
  std::size_t end_of_value(std::size_t begin) {
    std::size_t depth = 0;
    bool in_string = false;
    for (std::size_t i = begin;; ++i) {
      if (i >= ahead().size()) hold(2 * i + 1);
      if (i >= ahead().size()) fail_syntax();
      const char c = ahead()[i];
      if (in_string) {
        in_string = c != '"';
        if (c == '\\') ++i;
      } else if (c == '"') {
        in_string = true;
      } else if (c == '[' || c == '{') {
        ++depth;
      } else if (depth == 0 && (c == ',' || c == ':' || c == ']' || c == '}')) {
        return i;
      } else if (c == ']' || c == '}') {
        --depth;
      }
    }
  }

  // Takes the bracket. `place` is for the message if something else is there.
  void open(char bracket, const std::string& place) {
    const char got = next();
    if (got != bracket) {
      const std::string type = got == '{'   ? "an object"
                               : got == '[' ? "an array"
                               : got == '"' ? "a string"
                               : got == 't' ? "true"
                               : got == 'f' ? "false"
                               : got == 'n' ? "null"
                                            : "a number";
      fail(cat(place, "got ", type, ", want an ", bracket == '[' ? "array" : "object"));
    }
    ++at_;
  }

  // Returns the next character that is not white space; NUL at the end of the file.
  char next() {
    for (;;) {
      at_ += std::min(ahead().find_first_not_of(kSpace), ahead().size());
      hold(1);
      if (ahead().empty()) return '\0';
      if (kSpace.find(ahead().front()) == std::string_view::npos) return ahead().front();
    }
  }

  // Returns the bytes that were read and not taken.
  std::string_view ahead() const { return {buffer_.data() + at_, end_ - at_}; }

  // Reads on until `size_bytes` are ahead, or all of the file is.
  void hold(std::size_t size_bytes) {
    if (ahead().size() >= size_bytes) return;
    std::copy(buffer_.data() + at_, buffer_.data() + end_, buffer_.data());
    end_ -= std::exchange(at_, 0);
    const std::size_t wanted_bytes = std::max(size_bytes, piece_bytes_);
    if (buffer_.size() <= wanted_bytes) buffer_.resize(wanted_bytes + 1);
    end_ += file_.read(buffer_.data() + end_, wanted_bytes - end_);
    buffer_[end_] = '\0';
  }

  [[noreturn]] void fail(const std::string& problem) const {
    throw Error(ErrorKind::kData, cat(path_, ": ", problem));
  }
  // Throws an error that is reported only if the whole file is valid JSON when read_entries()
  // checks it afterwards.
  [[noreturn]] void fail_syntax() const { fail("changes while it is read"); }

  const std::string& path_;
  const std::vector<CocoList>& lists_;
  const TakeEntries& take_;
  const TakeValue& take_value_;
  std::size_t piece_bytes_;
  FileReader file_;
  std::string buffer_;
  std::size_t at_ = 0, end_ = 0;  // the bytes ahead, in buffer_
  int thread_count_ = 0;
  std::vector<Piece> pieces_;
};

// Returns a hint about the wanted file.
const char* wanted_file(const std::vector<CocoList>& lists) {
  if (lists[0].needed.back() != CocoField::kScore) return "";
  return "give COCO's results: [{\"image_id\": 1, \"category_id\": 1, \"bbox\": [x, y, width, "
         "height], \"score\": 0.9}, ...]; Ultralytics writes them with save_json=True";
}

// Throws `error` with the tool that made this file, or with a hint about the wanted one.
[[noreturn]] void fail_as_known(const std::string& path, const std::vector<CocoList>& lists,
                                const Error& error) {
  constexpr std::uint64_t kMostLookedAt = std::uint64_t{1} << 20;  // at either end
  const std::uint64_t size_bytes = file_size_bytes(path),
                      looked_at = std::min(size_bytes, kMostLookedAt);
  const std::string start = read_start(path, looked_at),
                    end = read_part(path, size_bytes - looked_at, looked_at);
  if (const auto foreign = foreign_json(cat(start, end))) {
    throw Error(error.kind(), cat(error.what(), "; this is a file of ", foreign->what),
                foreign->hint);
  }
  const bool may_be_results = lists.size() > 1 && start.starts_with('[');
  throw Error(error.kind(), error.what(),
              !error.hint().empty() ? error.hint()
              : may_be_results      ? "give the ground truth; results are for --detections"
                                    : wanted_file(lists));
}

}  // namespace

void read_entries(const std::string& path, const std::vector<CocoList>& lists,
                  const TakeEntries& take, const ReadingPieces& pieces) try {
  EntryFile(path, lists, take, {}, pieces).read();
} catch (const Error& error) {
  if (error.kind() == ErrorKind::kNoInput && is_folder(path)) {
    throw Error(error.kind(), error.what(), wanted_file(lists));
  }
  if (error.kind() != ErrorKind::kData) throw;
  try {  // bad JSON is reported first, by a check of the whole file, which knows lines and columns
    check_foreign_json_file(path);
  } catch (const Error& syntax) {
    fail_as_known(path, lists, syntax);
  }
  if (!error.hint().empty()) throw;
  fail_as_known(path, lists, error);
}

void read_values(const std::string& path, const std::string& key, const TakeValue& take) try {
  EntryFile(path, {{.key = key}}, {}, take, {}).read();
} catch (const Error& error) {
  if (error.kind() == ErrorKind::kData) check_foreign_json_file(path);  // bad JSON first
  throw;
}

std::string entry_place(const std::string& path, const CocoList& list, std::size_t index,
                        const CocoEntry& entry) {
  return cat(path, ": ", list.key.empty() ? "entry " : list.key, '[', index, ']',
             entry.has(CocoField::kId) ? cat(" (id ", entry.id, ")") : "");
}

}  // namespace retina
