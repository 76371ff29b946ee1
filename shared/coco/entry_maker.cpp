#include "shared/coco/entry_maker.h"

#include <cmath>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/base/printable.h"
#include "shared/base/text_encoding.h"

namespace retina {
namespace {

// A field's key and the member for its value; rows are in the order of CocoField.
struct FieldRow {
  std::string_view key;
  std::variant<std::int64_t CocoEntry::*, std::string_view CocoEntry::*,
               std::array<double, 4> CocoEntry::*, double CocoEntry::*, bool CocoEntry::*>
      place;
};
constexpr std::array<FieldRow, kCocoFields> kFields = {
    {{"id", &CocoEntry::id},
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

// Calls `use` with the field as a constant, so that the compiler knows its key and the type of its
// value.
template <class Use>
bool with_constant(std::size_t field, const Use& use) {
  bool result = false;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    ((field == I && (result = use(std::integral_constant<std::size_t, I>()), true)) || ...);
  }
  (std::make_index_sequence<kCocoFields>());
  return result;
}

unsigned bits(const std::vector<CocoField>& fields) {
  unsigned all = 0;
  for (const CocoField field : fields) all |= bit(static_cast<std::size_t>(field));
  return all;
}

// Returns the field of a key; kFields.size() if it is not one that is read.
std::size_t find_field(std::string_view key) {
  std::size_t field = 0;
  while (field < kFields.size() && kFields[field].key != key) ++field;
  return field;
}

std::string quoted(std::string_view text) {
  constexpr std::size_t kShownCharacters = 60;
  return cat('"', escaped(text, kShownCharacters), '"');
}

std::string type_of(const rapidjson::Value& value) {
  static constexpr const char* kTypes[] = {"null",     "false",    "true",    "an object",
                                           "an array", "a string", "a number"};
  return kTypes[value.GetType()];  // in the order of rapidjson::Type
}

std::string_view text_of(const rapidjson::Value& text) {
  return {text.GetString(), text.GetStringLength()};
}

bool has_escape(std::string_view text) {
  return text.find('\\') != std::string_view::npos;
}

}  // namespace

EntryMaker::EntryMaker(const std::string& path, const CocoList& list)
    : path_(path), list_(list), needed_(bits(list.needed)), wanted_(needed_ | bits(list.allowed)) {}

void EntryMaker::make(const rapidjson::Value& value, std::size_t index, CocoEntry& entry) {
  entry_ = &entry;
  index_ = index;
  unsigned keys = 0;  // including those with null
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

void EntryMaker::take_field(std::size_t field, const rapidjson::Value& value) {
  if (value.IsNull() && (needed_ & bit(field)) == 0) return;
  const std::string_view key = kFields[field].key;
  std::visit([&](auto place) { take(key, value, entry_->*place); }, kFields[field].place);
  entry_->given |= bit(field);
}

void EntryMaker::take(std::string_view key, const rapidjson::Value& value,
                      std::int64_t& integer) const {
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
void EntryMaker::take(std::string_view key, const rapidjson::Value& value, double& number) const {
  if (!value.IsNumber()) wrong_type(key, value, "a number");
  number = value.GetDouble();
}
void EntryMaker::take(std::string_view key, const rapidjson::Value& value, bool& flag) const {
  const double number = value.IsNumber() ? value.GetDouble() : value.IsTrue() ? 1 : 0;
  if ((!value.IsNumber() && !value.IsBool()) || (number != 0 && number != 1)) {
    wrong_type(key, value, "0 or 1");
  }
  flag = number == 1;
}
// Takes a text. Its bytes are UTF-8, but an escape may still be half of a UTF-16 pair.
void EntryMaker::take(std::string_view key, const rapidjson::Value& value,
                      std::string_view& text) const {
  if (!value.IsString()) wrong_type(key, value, "a string");
  text = text_of(value);
  if (!is_utf8(text)) {
    fail(cat(key, ": got ", quoted(text), ", want UTF-8"),
         key == "file_name"
             ? "Python writes a name like this where the file's own is not UTF-8: rename it"
             : "");
  }
}
void EntryMaker::take(std::string_view key, const rapidjson::Value& value,
                      std::array<double, 4>& box) const {
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

// Takes CVAT's attributes; other tools may have anything under that key.
void EntryMaker::take_attributes(const rapidjson::Value& value) {
  if (!value.IsObject()) return;
  for (const auto& member : value.GetObject()) {
    if (text_of(member.name) != "rotation" || !member.value.IsNumber()) continue;
    if (member.value.GetDouble() != 0) entry_->is_rotated = true;
  }
}

void EntryMaker::check_finite() const {
  const auto check = [&](const char* field, double number) {
    if (std::isfinite(number)) return;
    fail(cat(field, ": got ", shortest(number), ", want a finite number"));
  };
  for (const double side : entry_->bbox) check("bbox", side);
  check("area", entry_->area);
  check("score", entry_->score);
}

void EntryMaker::wrong_type(std::string_view key, const rapidjson::Value& got,
                            const char* want) const {
  fail(cat(key, ": got ",
           got.IsNumber()   ? shortest(got.GetDouble())
           : got.IsString() ? quoted(text_of(got))
                            : type_of(got),
           ", want ", want));
}
void EntryMaker::fail(const std::string& problem, const std::string& hint) const {
  throw Error(ErrorKind::kData, cat(entry_place(path_, list_, index_, *entry_), ": ", problem),
              hint);
}

QuickEntryMaker::QuickEntryMaker(const CocoList& list, JsonScanner& scanner)
    : scanner_(scanner), needed_(bits(list.needed)), wanted_(needed_ | bits(list.allowed)) {
  next_.fill(kFields.size());
}

// Flattens its calls into one function, since they take longer than their bodies.
[[gnu::flatten]] bool QuickEntryMaker::make(CocoEntry& entry) {
  entry_ = &entry;
  unsigned keys = 0;  // including those with null
  std::size_t field = kFields.size();
  const bool is_whole = scanner_.take_object([&] {
    // Keys mostly have the order of the previous entry.
    std::size_t& next = next_[field];
    std::string_view key;
    const auto take_key = [&](auto guess) { return scanner_.take_key(kFields[guess].key); };
    if (!with_constant(next, take_key)) {
      if (!scanner_.take_string(key) || !scanner_.take(':')) return false;
      next = find_field(key);
    }
    field = next;
    if ((wanted_ & bit(field)) == 0) return skip(key);
    if ((keys & bit(field)) != 0) return false;
    keys |= bit(field);
    if ((needed_ & bit(field)) == 0 && scanner_.take_word("null")) return true;
    entry_->given |= bit(field);
    return with_constant(field, [&](auto constant) {
      constexpr auto place = kFields[constant].place;
      return take(entry_->*std::get<place.index()>(place));
    });
  });
  return is_whole && (entry.given & needed_) == needed_;
}

bool QuickEntryMaker::skip(std::string_view key) {
  if (has_escape(key)) return false;  // it may be a wanted key
  return key == "attributes" && *scanner_.at() == '{' ? take_attributes() : scanner_.skip_value();
}

bool QuickEntryMaker::take_attributes() {
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

bool QuickEntryMaker::take(std::string_view& text) {
  return scanner_.take_string(text) && !has_escape(text);
}
bool QuickEntryMaker::take(bool& flag) {
  std::int64_t number = 0;
  if (scanner_.take_word("true")) {
    number = 1;
  } else if (!scanner_.take_word("false") && !scanner_.take_integer(number)) {
    return false;
  }
  flag = number == 1;
  return number == 0 || number == 1;
}

}  // namespace retina
