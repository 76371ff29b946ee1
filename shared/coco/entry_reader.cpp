#include "shared/coco/entry_reader.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/host.h"
#include "shared/base/json.h"
#include "shared/base/parallel.h"
#include "shared/base/printable.h"
#include "shared/base/text_encoding.h"
#include "shared/coco/json_scanner.h"

namespace retina {
namespace {

// In the order of CocoField: the key, and where its value goes.
struct FieldRow {
  std::string_view key;
  std::variant<std::int64_t CocoEntry::*, std::string_view CocoEntry::*,
               std::array<double, 4> CocoEntry::*, double CocoEntry::*, bool CocoEntry::*>
      place;
};
constexpr std::array<FieldRow, 12> kFields = {{{"id", &CocoEntry::id},
                                               {"image_id", &CocoEntry::image_id},
                                               {"category_id", &CocoEntry::category_id},
                                               {"bbox", &CocoEntry::bbox},
                                               {"score", &CocoEntry::score},
                                               {"area", &CocoEntry::area},
                                               {"iscrowd", &CocoEntry::iscrowd},
                                               {"width", &CocoEntry::width},
                                               {"height", &CocoEntry::height},
                                               {"file_name", &CocoEntry::file_name},
                                               {"name", &CocoEntry::name},
                                               {"supercategory", &CocoEntry::supercategory}}};

constexpr unsigned bit(std::size_t field) {
  return 1U << field;
}

unsigned bits(const std::vector<CocoField>& fields) {
  unsigned all = 0;
  for (const CocoField field : fields) all |= bit(static_cast<std::size_t>(field));
  return all;
}

// kFields.size() where nothing here reads it.
std::size_t find_field(std::string_view key) {
  std::size_t field = 0;
  while (field < kFields.size() && kFields[field].key != key) ++field;
  return field;
}

std::string quoted(std::string_view text) {
  constexpr std::size_t kShownCharacters = 60;
  return cat('"', escaped(text, kShownCharacters), '"');
}

std::string shown(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
  return shortest(number);
}

std::string type_of(const rapidjson::Value& value) {
  switch (value.GetType()) {
    case rapidjson::kNullType:
      return "null";
    case rapidjson::kFalseType:
      return "false";
    case rapidjson::kTrueType:
      return "true";
    case rapidjson::kNumberType:
      return "a number";
    case rapidjson::kStringType:
      return "a string";
    case rapidjson::kArrayType:
      return "an array";
    case rapidjson::kObjectType:
      break;
  }
  return "an object";
}

std::string_view text_of(const rapidjson::Value& text) {
  return {text.GetString(), text.GetStringLength()};
}

std::string written(const rapidjson::Value& value) {
  if (value.IsInt64()) return cat(value.GetInt64());
  if (value.IsNumber()) return shown(value.GetDouble());
  return value.IsString() ? quoted(text_of(value)) : type_of(value);
}

// Makes entries of values, and says what is wrong with those that are none.
class EntryMaker {
 public:
  EntryMaker(const std::string& path, const CocoList& list)
      : path_(path),
        list_(list),
        needed_(bits(list.needed)),
        wanted_(needed_ | bits(list.allowed)) {}

  // Fills entry number `index`, which is empty.
  void make(const rapidjson::Value& value, std::size_t index, CocoEntry& entry) {
    entry_ = &entry;
    index_ = index;
    unsigned keys = 0;  // those with null included
    if (!value.IsObject()) fail(cat("got ", type_of(value), ", want an object"));
    for (const auto& member : value.GetObject()) {
      const std::string_view key = text_of(member.name);
      if (key == "attributes") take_attributes(member.value);
      const std::size_t field = find_field(key);
      if ((wanted_ & bit(field)) == 0) continue;
      if ((keys & bit(field)) != 0) fail(cat("key \"", key, "\" appears twice"));
      keys |= bit(field);
      take_field(field, member.value);
    }
    for (const CocoField field : list_.needed) {
      if (entry_->has(field)) continue;
      fail(cat("key \"", kFields[static_cast<std::size_t>(field)].key, "\" is missing"));
    }
    check_finite();
  }

 private:
  void take_field(std::size_t field, const rapidjson::Value& value) {
    if (value.IsNull() && (needed_ & bit(field)) == 0) return;
    const std::string_view key = kFields[field].key;
    std::visit([&](auto place) { take(key, value, entry_->*place); }, kFields[field].place);
    entry_->given |= bit(field);
  }

  void take(std::string_view key, const rapidjson::Value& value, std::int64_t& integer) {
    if (value.IsInt64()) {
      integer = value.GetInt64();
      return;
    }
    // "id": 42.0, as pandas writes it.
    constexpr double kMostExact = 9007199254740992.0;
    const double number = value.IsNumber() ? value.GetDouble() : .5;
    if (std::nearbyint(number) != number || std::abs(number) > kMostExact) {
      wrong_type(key, value, "an integer");
    }
    integer = static_cast<std::int64_t>(number);
  }
  void take(std::string_view key, const rapidjson::Value& value, double& number) {
    if (!value.IsNumber()) wrong_type(key, value, "a number");
    number = value.GetDouble();
  }
  void take(std::string_view key, const rapidjson::Value& value, bool& flag) {
    const double number = value.IsNumber() ? value.GetDouble() : value.IsTrue() ? 1 : 0;
    if ((!value.IsNumber() && !value.IsBool()) || (number != 0 && number != 1)) {
      wrong_type(key, value, "0 or 1");
    }
    flag = number == 1;
  }
  // The text's bytes are UTF-8, but an escape may still be half of a UTF-16 pair.
  void take(std::string_view key, const rapidjson::Value& value, std::string_view& text) {
    if (!value.IsString()) wrong_type(key, value, "a string");
    text = text_of(value);
    if (!is_utf8(text)) {
      fail(cat(key, ": got ", quoted(text), ", want UTF-8"),
           key == "file_name"
               ? "Python writes a name like this where the file's own is not UTF-8: rename it"
               : "");
    }
  }
  void take(std::string_view key, const rapidjson::Value& value, std::array<double, 4>& box) {
    if (!value.IsArray()) wrong_type(key, value, "4 numbers");
    std::size_t count = 0;
    for (const rapidjson::Value& side : value.GetArray()) {
      if (!side.IsNumber()) {
        fail(cat(key, ": got ", type_of(side), " inside, want 4 numbers"));
      }
      if (count < box.size()) box[count] = side.GetDouble();
      ++count;
    }
    if (count != box.size()) fail(cat(key, ": got ", count, " numbers, want 4"));
  }

  // CVAT's. They may be anything else.
  void take_attributes(const rapidjson::Value& value) {
    if (!value.IsObject()) return;
    for (const auto& member : value.GetObject()) {
      if (text_of(member.name) != "rotation" || !member.value.IsNumber()) continue;
      if (member.value.GetDouble() != 0) entry_->is_rotated = true;
    }
  }

  void check_finite() const {
    const auto check = [&](double number, const std::string& key) {
      if (!std::isfinite(number)) fail(cat(key, ": got ", shown(number), ", want a finite number"));
    };
    for (std::size_t i = 0; i < entry_->bbox.size(); ++i) {
      if (!std::isfinite(entry_->bbox[i])) check(entry_->bbox[i], cat("bbox[", i, "]"));
    }
    check(entry_->area, "area");
    check(entry_->score, "score");
  }

  [[noreturn]] void wrong_type(std::string_view key, const rapidjson::Value& got,
                               const char* want) const {
    fail(cat(key, ": got ", written(got), ", want ", want));
  }
  [[noreturn]] void fail(const std::string& problem, const std::string& hint = "") const {
    throw Error(ErrorKind::kData, cat(entry_place(path_, list_, index_, *entry_), ": ", problem),
                hint);
  }

  const std::string& path_;
  const CocoList& list_;
  unsigned needed_, wanted_;  // a bit for each field
  std::size_t index_ = 0;
  CocoEntry* entry_ = nullptr;
};

constexpr std::string_view kSpace = " \t\r\n";

// The comma of the last "} , {" of a text, which looks like the border of two entries; or npos. It
// may as well lie in a string or in a list within an entry.
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

// Makes entries as programs write them, from their text. Where it returns false, EntryMaker is to
// look at the same text.
class QuickEntryMaker {
 public:
  QuickEntryMaker(const CocoList& list, JsonScanner& scanner)
      : scanner_(scanner), needed_(bits(list.needed)), wanted_(needed_ | bits(list.allowed)) {
    next_.fill(kFields.size());
  }

  // Fills an entry, which is empty; the scanner is on its "{".
  bool make(CocoEntry& entry) {
    entry_ = &entry;
    unsigned keys = 0;
    std::size_t field = kFields.size();
    const bool is_whole = scanner_.take_object([&] {
      // Mostly, the keys have the order of the entry before.
      std::size_t& next = next_[field];
      std::string_view key;
      if (next == kFields.size() || !scanner_.take_key(kFields[next].key)) {
        if (!scanner_.take_string(key) || !scanner_.take(':')) return false;
        next = find_field(key);
      }
      field = next;
      if ((wanted_ & bit(field)) == 0) return skip(key);
      if ((keys & bit(field)) != 0) return false;
      keys |= bit(field);
      return std::visit([&](auto place) { return take(entry_->*place); }, kFields[field].place);
    });
    entry.given = keys;
    return is_whole && (keys & needed_) == needed_;
  }

 private:
  bool skip(std::string_view key) {
    if (has_escape(key)) return false;  // it may be one that is read
    return key == "attributes" && *scanner_.at() == '{' ? take_attributes() : scanner_.skip_value();
  }

  bool take_attributes() {
    return scanner_.take_object([&] {
      std::string_view key;
      if (!scanner_.take_string(key) || has_escape(key) || !scanner_.take(':')) return false;
      double angle = 0;
      if (key != "rotation" || !scanner_.is_at_number()) return scanner_.skip_value();
      const bool is_good = scanner_.take_number(angle);
      if (angle != 0) entry_->is_rotated = true;
      return is_good;
    });
  }

  bool take(std::int64_t& integer) { return scanner_.take_integer(integer); }
  bool take(double& number) { return scanner_.take_number(number); }
  bool take(std::array<double, 4>& box) { return scanner_.take_box(box); }
  bool take(std::string_view& text) { return scanner_.take_string(text) && !has_escape(text); }
  bool take(bool& flag) {
    std::int64_t number = 0;
    if (scanner_.take_word("true")) {
      number = 1;
    } else if (!scanner_.take_word("false") && !scanner_.take_integer(number)) {
      return false;
    }
    flag = number == 1;
    return number == 0 || number == 1;
  }

  static bool has_escape(std::string_view text) {
    return text.find('\\') != std::string_view::npos;
  }

  JsonScanner& scanner_;
  unsigned needed_, wanted_;  // a bit for each field
  // Which field came last time behind each, and first; all that nobody reads are one.
  std::array<std::size_t, kFields.size() + 1> next_{};
  CocoEntry* entry_ = nullptr;
};

// Walks the file. What it takes at the root and in lists is proved to be JSON when it is parsed, so
// that the walk itself looks at brackets and strings alone.
class EntryFile {
 public:
  EntryFile(const std::string& path, const std::vector<CocoList>& lists, const TakeEntry& take,
            const ReadingPieces& pieces)
      : path_(path), lists_(lists), take_(take), piece_bytes_(pieces.piece_bytes), file_(path) {
    constexpr int kMostThreads = 8;  // the entries are handed over by one
    thread_count_ =
        pieces.thread_count > 0 ? pieces.thread_count : std::min(usable_cores(), kMostThreads);
    constexpr int kPiecesPerThread = 8;
    pieces_.resize(static_cast<std::size_t>(thread_count_ * kPiecesPerThread));
  }

  void read() try {
    hold(kByteOrderMark.size());
    if (ahead().starts_with(kByteOrderMark)) at_ += kByteOrderMark.size();
    if (lists_.size() == 1 && lists_[0].key.empty()) {
      read_list(0);
    } else {
      read_root();
    }
    if (next() != '\0') fail_syntax();
  } catch (const Error& error) {
    // What is no JSON is told first, and by the file as a whole, which knows lines and columns.
    if (error.kind() != ErrorKind::kData) throw;
    try {
      check_foreign_json(read_file(path_), path_);
    } catch (const Error& syntax) {
      if (syntax.kind() != ErrorKind::kUnavailable) throw;  // else the file is larger than memory
    } catch (const std::bad_alloc&) {
    }
    throw;
  }

 private:
  // Whole entries of a list, if it has been cut right.
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
        // A list may have hundreds of megabytes, wanted or not.
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

  // Hands over the entries of a list that is wanted; any other has to be JSON, no more.
  void read_list(std::size_t list) {
    const std::string key = is_wanted(list) ? lists_[list].key : "";
    open('[', key.empty() ? "" : key + ": ");
    if (next() == ']') {
      ++at_;
      return;
    }
    std::size_t index = 0;
    do {
      // Quickly, where pieces can be guessed.
      const std::size_t piece_count = guess_pieces();
      for_each_parallel(piece_count, thread_count_,
                        [&](std::size_t i) { parse_guess(pieces_[i], list); });
      std::size_t i = 0;
      for (; i < piece_count && pieces_[i].understood; ++i) {
        for (const CocoEntry& entry : pieces_[i].entries) take_(list, index++, entry);
        at_ += pieces_[i].text.size() + 1;
      }
      if (piece_count > 0 && i == piece_count) continue;

      // One piece with care: at the end of the list, of lists in entries, where something is wrong.
      std::size_t size = end_of_value(0);
      while (ahead()[size] == ',' && size < piece_bytes_) size = end_of_value(size + 1);
      if (ahead()[size] != ',' && ahead()[size] != ']') fail_syntax();
      const std::size_t first = index;
      std::optional<EntryMaker> maker;
      if (is_wanted(list)) maker.emplace(path_, lists_[list]);
      const JsonFile values = parse(size);
      for (const rapidjson::Value& value : values.root().raw().GetArray()) {
        if (maker) {
          CocoEntry entry;
          maker->make(value, index, entry);
          take_(list, index, entry);
        }
        ++index;
      }
      if (index == first) fail_syntax();  // a comma, and nothing behind it
      at_ += size + 1;
    } while (buffer_[at_ - 1] == ',');
  }

  // Gives each piece a text that seems to have whole entries; returns how many have one. A text
  // begins behind the last one's comma: where that has been parsed, this one begins with an entry,
  // so where this one is parsed in turn, its end is the end of an entry, too.
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

  // An entry that is refused is read again with care, for its message, too: here it has no index.
  void parse_guess(Piece& piece, std::size_t list) const {
    piece.entries.clear();
    // It may go on into the next one's, up to the NUL behind all.
    JsonScanner scanner({piece.text.data(), buffer_.data() + end_});
    std::optional<QuickEntryMaker> maker;
    if (is_wanted(list)) maker.emplace(lists_[list], scanner);
    const char* const end = piece.text.data() + piece.text.size();
    bool is_good = true;
    do {
      scanner.skip_spaces();
      is_good = maker ? maker->make(piece.entries.emplace_back()) : scanner.skip_value();
      scanner.skip_spaces();
    } while (is_good && scanner.at() < end && scanner.take(','));
    piece.understood = is_good && scanner.at() == end;
  }

  // Takes one value, proved to be JSON, up to a comma or bracket, or, where it is a key, to its
  // colon. Returns its text.
  std::string take_value(char end) {
    const std::size_t size = end_of_value(0);
    if ((ahead()[size] == ':') != (end == ':')) fail_syntax();
    const JsonFile values = parse(size);
    const auto array = values.root().raw().GetArray();
    if (array.Empty() || (end == ':' && !array[0].IsString())) fail_syntax();
    at_ += size;
    return std::string(array[0].IsString() ? text_of(array[0]) : "");
  }

  // The array of the values in the next `size` bytes, which are complete.
  JsonFile parse(std::size_t size) const {
    return JsonFile::parse_foreign(cat('[', ahead().substr(0, size), ']'), path_);
  }

  // How far ahead the value ends that begins `begin` bytes ahead: one of ",:]}" is there.
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

  // Takes the bracket. `place` is for the message where something else is there.
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

  // The next character that is not white space; NUL where the file ends.
  char next() {
    for (;;) {
      at_ += std::min(ahead().find_first_not_of(kSpace), ahead().size());
      hold(1);
      if (ahead().empty()) return '\0';
      if (kSpace.find(ahead().front()) == std::string_view::npos) return ahead().front();
    }
  }

  // What has been read of the file and not taken.
  std::string_view ahead() const { return {buffer_.data() + at_, end_ - at_}; }

  // Reads on until `size_bytes` are ahead, or all that the file has.
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
  // See read().
  [[noreturn]] void fail_syntax() const { fail("changes while it is read"); }

  const std::string& path_;
  const std::vector<CocoList>& lists_;
  const TakeEntry& take_;
  std::size_t piece_bytes_;
  FileReader file_;
  std::string buffer_;
  std::size_t at_ = 0, end_ = 0;  // of what is ahead, in buffer_
  int thread_count_ = 0;
  std::vector<Piece> pieces_;
};

}  // namespace

void read_entries(const std::string& path, const std::vector<CocoList>& lists,
                  const TakeEntry& take, const ReadingPieces& pieces) {
  EntryFile(path, lists, take, pieces).read();
}

std::string entry_place(const std::string& path, const CocoList& list, std::size_t index,
                        const CocoEntry& entry) {
  return cat(path, ": ", list.key.empty() ? "entry " : list.key, '[', index, ']',
             entry.has(CocoField::kId) ? cat(" (id ", entry.id, ")") : "");
}

}  // namespace retina
