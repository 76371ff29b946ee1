#include "shared/coco/entry_reader.h"

#include <simdjson.h>

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

namespace retina {
namespace {

namespace dom = simdjson::dom;

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

// A value of either parser. What is inside an array or object stays with the parser.
struct Scalar {
  enum Kind { kNull, kFlag, kInteger, kReal, kText, kArray, kObject } kind = kNull;
  bool flag = false;
  std::int64_t integer = 0;  // of kInteger
  double real = 0;           // of kInteger, too
  std::string_view text{};

  bool is_number() const { return kind == kInteger || kind == kReal; }
};

Scalar of_integer(std::int64_t integer) {
  return {.kind = Scalar::kInteger, .integer = integer, .real = static_cast<double>(integer)};
}

inline Scalar scalar_of(const dom::element& value) {
  switch (value.type()) {
    case dom::element_type::INT64:
      return of_integer(std::int64_t(value));
    case dom::element_type::UINT64:
    case dom::element_type::DOUBLE:
      return {.kind = Scalar::kReal, .real = double(value)};
    case dom::element_type::STRING:
      return {.kind = Scalar::kText, .text = std::string_view(value)};
    case dom::element_type::BOOL:
      return {.kind = Scalar::kFlag, .flag = bool(value)};
    case dom::element_type::ARRAY:
      return {.kind = Scalar::kArray};
    case dom::element_type::OBJECT:
      return {.kind = Scalar::kObject};
    case dom::element_type::NULL_VALUE:
      break;
  }
  return {};
}

Scalar scalar_of(const rapidjson::Value& value) {
  if (value.IsInt64()) return of_integer(value.GetInt64());
  if (value.IsNumber()) return {.kind = Scalar::kReal, .real = value.GetDouble()};
  if (value.IsString()) {
    return {.kind = Scalar::kText, .text = {value.GetString(), value.GetStringLength()}};
  }
  if (value.IsBool()) return {.kind = Scalar::kFlag, .flag = value.GetBool()};
  if (value.IsArray()) return {.kind = Scalar::kArray};
  if (value.IsObject()) return {.kind = Scalar::kObject};
  return {};
}

// Whether the value is a number, and which.
bool get_number(const dom::element& value, double& number) {
  return value.get(number) == simdjson::SUCCESS;
}
bool get_number(const rapidjson::Value& value, double& number) {
  if (value.IsNumber()) number = value.GetDouble();
  return value.IsNumber();
}

template <class Visit>
void for_each_element(const dom::element& array, const Visit& visit) {
  const dom::array elements = array;
  for (const dom::element element : elements) visit(element);
}
template <class Visit>
void for_each_element(const rapidjson::Value& array, const Visit& visit) {
  for (const rapidjson::Value& element : array.GetArray()) visit(element);
}

template <class Visit>
void for_each_member(const dom::element& object, const Visit& visit) {
  const dom::object members = object;
  for (const dom::key_value_pair member : members) visit(member.key, member.value);
}
template <class Visit>
void for_each_member(const rapidjson::Value& object, const Visit& visit) {
  for (const auto& member : object.GetObject()) visit(scalar_of(member.name).text, member.value);
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

std::string type_of(const Scalar& value) {
  switch (value.kind) {
    case Scalar::kNull:
      return "null";
    case Scalar::kFlag:
      return value.flag ? "true" : "false";
    case Scalar::kInteger:
    case Scalar::kReal:
      return "a number";
    case Scalar::kText:
      return "a string";
    case Scalar::kArray:
      return "an array";
    case Scalar::kObject:
      break;
  }
  return "an object";
}

std::string written(const Scalar& value) {
  if (value.kind == Scalar::kInteger) return cat(value.integer);
  if (value.kind == Scalar::kReal) return shown(value.real);
  return value.kind == Scalar::kText ? quoted(value.text) : type_of(value);
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
  template <class Value>
  void make(const Value& value, std::size_t index, CocoEntry& entry) {
    entry_ = &entry;
    index_ = index;
    unsigned keys = 0;  // those with null included
    const Scalar whole = scalar_of(value);
    if (whole.kind != Scalar::kObject) fail(cat("got ", type_of(whole), ", want an object"));
    for_each_member(value, [&](std::string_view key, const auto& content) {
      if (key == "attributes") return take_attributes(content);
      std::size_t field = 0;
      while (field < kFields.size() && kFields[field].key != key) ++field;
      if ((wanted_ & bit(field)) == 0) return;
      if ((keys & bit(field)) != 0) fail(cat("key \"", key, "\" appears twice"));
      keys |= bit(field);
      take_field(field, content);
    });
    for (const CocoField field : list_.needed) {
      if (entry_->has(field)) continue;
      fail(cat("key \"", kFields[static_cast<std::size_t>(field)].key, "\" is missing"));
    }
    check_finite();
  }

 private:
  template <class Value>
  void take_field(std::size_t field, const Value& value) {
    const Scalar content = scalar_of(value);
    if (content.kind == Scalar::kNull && (needed_ & bit(field)) == 0) return;
    const std::string_view key = kFields[field].key;
    std::visit([&](auto place) { take(key, content, value, entry_->*place); },
               kFields[field].place);
    entry_->given |= bit(field);
  }

  template <class Value>
  void take(std::string_view key, const Scalar& content, const Value&, std::int64_t& integer) {
    // "id": 42.0, as pandas writes it.
    constexpr double kMostExact = 9007199254740992.0;
    const bool is_integral = content.kind == Scalar::kReal &&
                             std::abs(content.real) <= kMostExact &&
                             std::nearbyint(content.real) == content.real;
    if (content.kind != Scalar::kInteger && !is_integral) wrong_type(key, content, "an integer");
    integer = is_integral ? static_cast<std::int64_t>(content.real) : content.integer;
  }
  template <class Value>
  void take(std::string_view key, const Scalar& content, const Value& value, double& number) {
    if (!get_number(value, number)) wrong_type(key, content, "a number");
  }
  template <class Value>
  void take(std::string_view key, const Scalar& content, const Value& value, bool& flag) {
    std::int64_t number = content.flag ? 1 : 0;
    if (content.is_number()) take(key, content, value, number);
    if ((content.kind != Scalar::kFlag && !content.is_number()) || (number != 0 && number != 1)) {
      wrong_type(key, content, "0 or 1");
    }
    flag = number == 1;
  }
  // The text's bytes are UTF-8, but an escape may still be half of a UTF-16 pair.
  template <class Value>
  void take(std::string_view key, const Scalar& content, const Value&, std::string_view& text) {
    if (content.kind != Scalar::kText) wrong_type(key, content, "a string");
    if (!is_utf8(content.text)) {
      fail(cat(key, ": got ", quoted(content.text), ", want UTF-8"),
           key == "file_name"
               ? "Python writes a name like this where the file's own is not UTF-8: rename it"
               : "");
    }
    text = content.text;
  }
  template <class Value>
  void take(std::string_view key, const Scalar& content, const Value& value,
            std::array<double, 4>& box) {
    if (content.kind != Scalar::kArray) wrong_type(key, content, "4 numbers");
    std::size_t count = 0;
    for_each_element(value, [&](const auto& element) {
      double side = 0;
      if (!get_number(element, side)) {
        fail(cat(key, ": got ", type_of(scalar_of(element)), " inside, want 4 numbers"));
      }
      if (count < box.size()) box[count] = side;
      ++count;
    });
    if (count != box.size()) fail(cat(key, ": got ", count, " numbers, want 4"));
  }

  // CVAT's. They may be anything else.
  template <class Value>
  void take_attributes(const Value& value) {
    if (scalar_of(value).kind != Scalar::kObject) return;
    for_each_member(value, [&](std::string_view key, const auto& content) {
      const Scalar angle = scalar_of(content);
      if (key == "rotation" && angle.is_number() && angle.real != 0) entry_->is_rotated = true;
    });
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

  [[noreturn]] void wrong_type(std::string_view key, const Scalar& got, const char* want) const {
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

// -0 is an integer for simdjson, which has no sign then. Texts like "a-0" may come along.
bool may_have_negative_zero(std::string_view text) {
  constexpr std::string_view kGoesOn = ".eE0123456789";
  for (std::size_t at = 0; (at = text.find("-0", at)) != std::string_view::npos; at += 2) {
    if (at + 2 == text.size() || kGoesOn.find(text[at + 2]) == std::string_view::npos) return true;
  }
  return false;
}

// What a thread parses with, again and again.
class PieceParser {
 public:
  // Values with commas between them, as an array; nothing where it is not that for simdjson or
  // would lose a sign. Valid until the next call.
  std::optional<dom::element> parse(std::string_view values) {
    if (may_have_negative_zero(values)) return std::nullopt;
    text_.assign(1, '[').append(values).append(1, ']');
    const std::size_t size = text_.size();
    text_.append(simdjson::SIMDJSON_PADDING, ' ');
    dom::element array;
    if (parser_.parse(text_.data(), size, false).get(array) != simdjson::SUCCESS) {
      return std::nullopt;
    }
    return array;
  }

 private:
  dom::parser parser_;
  std::string text_;
};

// Walks the file. What it takes at the root and in lists is proved to be JSON when it is parsed, so
// that the walk itself looks at brackets and strings alone.
class EntryFile {
 public:
  EntryFile(const std::string& path, const std::vector<CocoList>& lists, const TakeEntry& take,
            const ReadingPieces& pieces)
      : path_(path), lists_(lists), take_(take), piece_bytes_(pieces.piece_bytes), file_(path) {
    constexpr int kMostThreads = 8;  // the entries are handed over by one
    workers_.resize(static_cast<std::size_t>(
        pieces.thread_count > 0 ? pieces.thread_count : std::min(usable_cores(), kMostThreads)));
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
  // A thread's piece: whole entries of a list, if it has been cut right.
  struct Worker {
    PieceParser parser{};
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
      for_each_parallel(piece_count, static_cast<int>(piece_count),
                        [&](std::size_t i) { parse_guess(workers_[i], list); });
      std::size_t i = 0;
      for (; i < piece_count && workers_[i].understood; ++i) {
        for (const CocoEntry& entry : workers_[i].entries) take_(list, index++, entry);
        at_ += workers_[i].text.size() + 1;
      }
      if (piece_count > 0 && i == piece_count) continue;

      // One piece with care: at the end of the list, of lists in entries, where something is wrong.
      std::size_t size = end_of_value(0);
      while (ahead()[size] == ',' && size < piece_bytes_) size = end_of_value(size + 1);
      if (ahead()[size] != ',' && ahead()[size] != ']') fail_syntax();
      const std::size_t first = index;
      parse(ahead().substr(0, size), [&](const auto& array) {
        std::optional<EntryMaker> maker;
        if (is_wanted(list)) maker.emplace(path_, lists_[list]);
        for_each_element(array, [&](const auto& value) {
          if (maker) {
            CocoEntry entry;
            maker->make(value, index, entry);
            take_(list, index, entry);
          }
          ++index;
        });
      });
      if (index == first) fail_syntax();  // a comma, and nothing behind it
      at_ += size + 1;
    } while (buffer_[at_ - 1] == ',');
  }

  // Gives each worker a text that seems to have whole entries; returns how many have one. A text
  // begins behind the last one's comma: where that has been parsed, this one begins with an entry,
  // so where this one is parsed in turn, its end is the end of an entry, too.
  std::size_t guess_pieces() {
    hold(workers_.size() * piece_bytes_ + 1);
    std::string_view rest = ahead();
    std::size_t count = 0;
    while (count < workers_.size() && rest.size() > piece_bytes_) {
      const std::size_t comma = last_border(rest.substr(0, piece_bytes_));
      if (comma == std::string_view::npos) break;
      workers_[count++].text = rest.substr(0, comma);
      rest.remove_prefix(comma + 1);
    }
    return count;
  }

  void parse_guess(Worker& worker, std::size_t list) const {
    worker.entries.clear();
    worker.understood = false;
    const auto array = worker.parser.parse(worker.text);
    if (!array) return;
    try {
      if (is_wanted(list)) {
        EntryMaker maker(path_, lists_[list]);
        for_each_element(*array, [&](const dom::element& value) {
          maker.make(value, 0, worker.entries.emplace_back());
        });
      }
      worker.understood = true;
    } catch (const Error&) {
      // Read again with care, for its message: this one has no index.
    }
  }

  // Takes one value, proved to be JSON, up to a comma or bracket, or, where it is a key, to its
  // colon. Returns its text.
  std::string take_value(char end) {
    const std::size_t size = end_of_value(0);
    if ((ahead()[size] == ':') != (end == ':')) fail_syntax();
    std::string text;
    bool is_value = false;
    parse(ahead().substr(0, size), [&](const auto& array) {
      for_each_element(array, [&](const auto& value) {
        const Scalar content = scalar_of(value);
        is_value = end != ':' || content.kind == Scalar::kText;
        text = content.text;
      });
    });
    if (!is_value) fail_syntax();
    at_ += size;
    return text;
  }

  // Calls `take` with the array of the values in `text`, which are complete.
  template <class Take>
  void parse(std::string_view text, const Take& take) {
    if (const auto array = workers_[0].parser.parse(text)) return take(*array);
    take(JsonFile::parse_foreign(cat('[', text, ']'), path_).root().raw());
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
    if (buffer_.size() < wanted_bytes) buffer_.resize(wanted_bytes);
    end_ += file_.read(buffer_.data() + end_, wanted_bytes - end_);
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
  std::vector<Worker> workers_;
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
