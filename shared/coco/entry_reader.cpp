#include "shared/coco/entry_reader.h"

#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/exact_number.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/printable.h"
#include "shared/base/text_encoding.h"

namespace retina {
namespace {

// Iterative: a file of a million "[" must not overflow the stack. NaN and Infinity (which Python's
// json writes) are let through so that the message can name the entry. Numbers come as text
// (exact_number.h).
constexpr unsigned kParseFlags = rapidjson::kParseNumbersAsStringsFlag |
                                 rapidjson::kParseIterativeFlag | rapidjson::kParseNanAndInfFlag |
                                 rapidjson::kParseValidateEncodingFlag;

constexpr std::array<const char*, kCocoFieldCount> kFieldNames = {
    "id",   "image_id", "category_id", "file_name", "width",         "height",
    "bbox", "area",     "iscrowd",     "name",      "supercategory", "score"};

CocoField field_of(std::string_view key) {
  for (std::size_t i = 0; i < kCocoFieldCount; ++i) {
    if (key == kFieldNames[i]) return static_cast<CocoField>(i);
  }
  return CocoField::kOther;
}

bool contains(const std::vector<CocoField>& fields, CocoField field) {
  return std::find(fields.begin(), fields.end(), field) != fields.end();
}

std::string quoted(std::string_view text) {
  constexpr std::size_t kShownCharacters = 60;
  return cat('"', escaped(text, kShownCharacters), '"');
}

std::string show(double number) {
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
  return shortest(number);
}

}  // namespace

const char* field_name(CocoField field) {
  return kFieldNames.at(static_cast<std::size_t>(field));
}

// RapidJSON's handler. Depths: 0 outside, then (for a file that is an object) 1 inside it, 2 inside
// a list, 3 inside an entry; a file that is the array itself starts at 1 for the list.
class EntryEvents {
 public:
  EntryEvents(EntryReader& reader, const std::string& name, const std::vector<CocoList>& lists)
      : reader_(reader),
        name_(name),
        lists_(lists),
        seen_(lists.size(), false),
        bare_(lists.size() == 1 && lists[0].key.empty()) {}

  bool Null() {
    // An optional field that is null counts as absent.
    if (skip_ == 0 && state_ == State::kField && !contains(lists_[list_].needed, field_)) {
      return done_with_field();
    }
    return scalar([&](CocoField) { wrong_type("null"); }, "null");
  }
  bool Bool(bool flag) {
    return scalar(
        [&](CocoField field) {
          if (field != CocoField::kIscrowd) wrong_type(flag ? "true" : "false");
          entry_.iscrowd = flag;
        },
        flag ? "true" : "false");
  }
  // The text is JSON's, or NaN, or an infinity; a NUL is behind it.
  bool RawNumber(const char* text, rapidjson::SizeType length, bool) {
    if (skip_ > 0) return true;
    const std::string_view written(text, length);
    if (state_ != State::kNumbers) {
      if (const auto integer = exact_integer<std::int64_t>(written)) {
        return scalar([&](CocoField field) { set_integer(field, *integer); }, "a number");
      }
    }
    const double number = exact_double(written);
    if (state_ == State::kNumbers) {
      if (bbox_count_ < 4) entry_.bbox[bbox_count_] = number;
      ++bbox_count_;
      return true;
    }
    return scalar([&](CocoField field) { set_real(field, number); }, "a number");
  }
  // Numbers come as text.
  bool Int(int) { return false; }
  bool Uint(unsigned) { return false; }
  bool Int64(std::int64_t) { return false; }
  bool Uint64(std::uint64_t) { return false; }
  bool Double(double) { return false; }
  bool String(const char* text, rapidjson::SizeType length, bool) {
    const std::string_view view(text, length);
    return scalar([&](CocoField field) { set_text(field, view); }, "a string");
  }

  bool StartObject() {
    if (skip_ > 0) return ++skip_, true;
    switch (state_) {
      case State::kStart:
        if (bare_) fail_file("got an object, want an array");
        state_ = State::kRoot;
        return true;
      case State::kRoot:
        if (list_ < lists_.size()) fail_list("got an object, want an array");
        return ++skip_, true;
      case State::kList:
        state_ = State::kEntry;
        entry_ = CocoEntry();
        keys_ = {};
        return true;
      case State::kField:
        wrong_type("an object");
      case State::kNumbers:
        fail_entry("bbox: got an object, want 4 numbers");
      case State::kEntry:
        return ++skip_, true;
    }
    return false;
  }
  bool Key(const char* text, rapidjson::SizeType length, bool) {
    if (skip_ > 0) return true;
    const std::string_view key(text, length);
    if (state_ == State::kRoot) {
      list_ = 0;
      while (list_ < lists_.size() && lists_[list_].key != key) ++list_;
      if (list_ < lists_.size() && seen_[list_]) {
        fail_file(cat("key \"", key, "\" appears twice"));
      }
    } else {
      field_ = field_of(key);
      const CocoList& list = lists_[list_];
      if (contains(list.needed, field_) || contains(list.allowed, field_)) {
        if (std::exchange(keys_[static_cast<std::size_t>(field_)], true)) {
          fail_entry(cat("key \"", field_name(field_), "\" appears twice"));
        }
        state_ = State::kField;
      }
    }
    return true;
  }
  bool EndObject(rapidjson::SizeType) {
    if (skip_ > 0) return --skip_, true;
    if (state_ == State::kRoot) {
      state_ = State::kStart;
      return true;
    }
    for (const CocoField field : lists_[list_].needed) {
      if (!entry_.has(field)) fail_entry(cat("key \"", field_name(field), "\" is missing"));
    }
    check_finite();
    reader_.entry(list_, index_, entry_);
    ++index_;
    state_ = State::kList;
    return true;
  }
  bool StartArray() {
    if (skip_ > 0) return ++skip_, true;
    switch (state_) {
      case State::kStart:
        if (!bare_) fail_file("got an array, want an object");
        return start_list();
      case State::kRoot:
        if (list_ == lists_.size()) return ++skip_, true;
        return start_list();
      case State::kList:
        fail_entry_type("an array");
      case State::kField:
        if (field_ != CocoField::kBbox) wrong_type("an array");
        state_ = State::kNumbers;
        bbox_count_ = 0;
        return true;
      case State::kNumbers:
        fail_entry("bbox: got an array inside, want 4 numbers");
      case State::kEntry:
        return ++skip_, true;
    }
    return false;
  }
  bool EndArray(rapidjson::SizeType) {
    if (skip_ > 0) return --skip_, true;
    if (state_ == State::kNumbers) {
      if (bbox_count_ != 4) fail_entry(cat("bbox: got ", bbox_count_, " numbers, want 4"));
      return mark(CocoField::kBbox), done_with_field();
    }
    state_ = bare_ ? State::kStart : State::kRoot;
    list_ = lists_.size();
    return true;
  }

  void check_all_seen() const {
    for (std::size_t i = 0; i < lists_.size(); ++i) {
      if (!seen_[i]) fail_file(cat("key \"", lists_[i].key, "\" is missing"));
    }
  }

 private:
  enum class State { kStart, kRoot, kList, kEntry, kField, kNumbers };

  bool start_list() {
    if (bare_) list_ = 0;
    seen_[list_] = true;
    index_ = 0;
    state_ = State::kList;
    return true;
  }

  // A value that is not a container: `assign` takes it when an entry's field expects one.
  template <class Assign>
  bool scalar(const Assign& assign, const char* type) {
    if (skip_ > 0) return true;
    switch (state_) {
      case State::kStart:
        fail_file(cat("got ", type, ", want an ", bare_ ? "array" : "object"));
      case State::kRoot:
        if (list_ < lists_.size()) fail_list(cat("got ", type, ", want an array"));
        return true;
      case State::kList:
        fail_entry_type(type);
      case State::kNumbers:
        fail_entry(cat("bbox: got ", type, " inside, want 4 numbers"));
      case State::kEntry:
        return true;
      case State::kField:
        assign(field_);
        return mark(field_), done_with_field();
    }
    return false;
  }

  void set_integer(CocoField field, std::int64_t number) {
    switch (field) {
      case CocoField::kId:
        entry_.id = number;
        break;
      case CocoField::kImageId:
        entry_.image_id = number;
        break;
      case CocoField::kCategoryId:
        entry_.category_id = number;
        break;
      case CocoField::kWidth:
        entry_.width = number;
        break;
      case CocoField::kHeight:
        entry_.height = number;
        break;
      case CocoField::kIscrowd:
        if (number != 0 && number != 1) wrong_type(cat(number));
        entry_.iscrowd = number == 1;
        break;
      case CocoField::kArea:
        entry_.area = static_cast<double>(number);
        break;
      case CocoField::kScore:
        entry_.score = static_cast<double>(number);
        break;
      default:
        wrong_type(cat(number));
    }
  }

  void set_real(CocoField field, double number) {
    if (field == CocoField::kArea) {
      entry_.area = number;
    } else if (field == CocoField::kScore) {
      entry_.score = number;
    } else if (std::abs(number) <= 9007199254740992.0 && std::nearbyint(number) == number) {
      set_integer(field, static_cast<std::int64_t>(number));  // "id": 42.0, as pandas writes it
    } else {
      wrong_type(show(number));
    }
  }

  // Bytes are checked while parsing; an escape may still be half of a UTF-16 pair.
  void set_text(CocoField field, std::string_view text) {
    if (!is_utf8(text)) {
      fail_entry(cat(field_name(field), ": got ", quoted(text), ", want UTF-8"),
                 field == CocoField::kFileName
                     ? "Python writes a name like this where the file's own is not UTF-8: rename it"
                     : "");
    }
    if (field == CocoField::kFileName) {
      entry_.file_name = text;
    } else if (field == CocoField::kName) {
      entry_.name = text;
    } else if (field == CocoField::kSupercategory) {
      entry_.supercategory = text;
    } else {
      wrong_type(quoted(text));
    }
  }

  void check_finite() const {
    if (entry_.has(CocoField::kBbox)) {
      for (std::size_t i = 0; i < 4; ++i) {
        if (!std::isfinite(entry_.bbox[i])) {
          fail_entry(cat("bbox[", i, "]: got ", show(entry_.bbox[i]), ", want a finite number"));
        }
      }
    }
    if (!std::isfinite(entry_.area)) {
      fail_entry(cat("area: got ", show(entry_.area), ", want a finite number"));
    }
    if (!std::isfinite(entry_.score)) {
      fail_entry(cat("score: got ", show(entry_.score), ", want a finite number"));
    }
  }

  void mark(CocoField field) { entry_.given[static_cast<std::size_t>(field)] = true; }
  bool done_with_field() {
    state_ = State::kEntry;
    return true;
  }

  [[noreturn]] void fail_file(const std::string& problem) const {
    throw Error(ErrorKind::kData, cat(name_, ": ", problem));
  }
  [[noreturn]] void fail_list(const std::string& problem) const {
    fail_file(cat(lists_[list_].key, ": ", problem));
  }
  [[noreturn]] void fail_entry(const std::string& problem, const std::string& hint = "") const {
    throw Error(ErrorKind::kData,
                cat(EntryReader::place(name_, lists_[list_], index_, entry_), ": ", problem), hint);
  }
  [[noreturn]] void fail_entry_type(const std::string& got) {
    entry_ = CocoEntry();
    fail_entry(cat("got ", got, ", want an object"));
  }
  [[noreturn]] void wrong_type(const std::string& got) const {
    const char* want = "an integer";
    if (field_ == CocoField::kBbox) want = "4 numbers";
    if (field_ == CocoField::kArea || field_ == CocoField::kScore) want = "a number";
    if (field_ == CocoField::kIscrowd) want = "0 or 1";
    if (field_ == CocoField::kFileName || field_ == CocoField::kName ||
        field_ == CocoField::kSupercategory) {
      want = "a string";
    }
    fail_entry(cat(field_name(field_), ": got ", got, ", want ", want));
  }

  EntryReader& reader_;
  const std::string& name_;
  const std::vector<CocoList>& lists_;
  std::vector<bool> seen_;
  bool bare_;
  State state_ = State::kStart;
  std::size_t skip_ = 0;  // depth inside a value that nobody reads
  std::size_t list_ = 0, index_ = 0, bbox_count_ = 0;
  CocoField field_ = CocoField::kOther;
  CocoEntry entry_;
  std::array<bool, kCocoFieldCount> keys_{};  // of the entry, null values included
};

std::string EntryReader::place(const std::string& name, const CocoList& list, std::size_t index,
                               const CocoEntry& entry) {
  return cat(name, ": ", list.key.empty() ? "entry " : list.key, '[', index, ']',
             entry.has(CocoField::kId) ? cat(" (id ", entry.id, ")") : "");
}

namespace {

// RapidJSON's input stream over a file. Of a byte of the file's own that is NUL it ends, too.
class FileStream {
 public:
  using Ch = char;

  FileStream(const std::string& path, std::size_t piece_bytes)
      : file_(path),
        piece_bytes_(piece_bytes),
        piece_(std::make_unique_for_overwrite<char[]>(piece_bytes + 1)) {
    fill();
    if (std::string_view(at_, end_).starts_with(kByteOrderMark)) at_ += kByteOrderMark.size();
    if (at_ == end_) fill();
  }

  Ch Peek() const { return *at_; }
  Ch Take() {
    const char taken = *at_;
    if (at_ != end_ && ++at_ == end_) fill();
    return taken;
  }
  std::size_t Tell() const { return before_ + static_cast<std::size_t>(at_ - piece_.get()); }

  // For parsing in place, which this does not.
  Ch* PutBegin() { return nullptr; }
  void Put(Ch) {}
  void Flush() {}
  std::size_t PutEnd(Ch*) { return 0; }

 private:
  // The next piece, and NUL behind it.
  void fill() {
    before_ += static_cast<std::size_t>(end_ - piece_.get());
    at_ = piece_.get();
    end_ = at_ + file_.read(piece_.get(), piece_bytes_);
    piece_[static_cast<std::size_t>(end_ - at_)] = '\0';
  }

  FileReader file_;
  std::size_t piece_bytes_;
  std::unique_ptr<char[]> piece_;
  const char* at_ = piece_.get();
  const char* end_ = piece_.get();
  std::size_t before_ = 0;  // bytes of the file before this piece
};

}  // namespace

template <class Stream>
std::optional<JsonSyntaxError> EntryReader::parse(Stream& stream, const std::string& name,
                                                  const std::vector<CocoList>& lists) {
  EntryEvents events(*this, name, lists);
  rapidjson::Reader reader;
  const rapidjson::ParseResult result = reader.Parse<kParseFlags>(stream, events);
  if (result.IsError()) return JsonSyntaxError{.offset = result.Offset(), .code = result.Code()};
  events.check_all_seen();
  return std::nullopt;
}

void EntryReader::read(std::string_view text, const std::string& name,
                       const std::vector<CocoList>& lists) {
  const std::size_t mark_bytes = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  rapidjson::MemoryStream stream(text.data() + mark_bytes, text.size() - mark_bytes);
  if (auto error = parse(stream, name, lists)) {
    error->offset += mark_bytes;
    fail_json_syntax(name, text, *error);
  }
}

void EntryReader::stream(const std::string& path, std::size_t piece_bytes,
                         const std::vector<CocoList>& lists) {
  FileStream file(path, piece_bytes);
  if (const auto error = parse(file, path, lists)) fail_json_syntax_of_file(path, *error);
}

}  // namespace retina
