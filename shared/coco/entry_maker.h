// Makes one entry of a COCO list, for entry_reader.cpp: quickly from its text as programs write it,
// or from any JSON, with messages for errors.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "shared/base/json.h"
#include "shared/coco/entry_reader.h"
#include "shared/coco/json_scanner.h"

namespace retina {

constexpr std::size_t kCocoFields = 12;

// Makes entries of RapidJSON's values.
class EntryMaker {
 public:
  EntryMaker(const std::string& path, const CocoList& list);

  // Fills entry number `index`, which is empty. Throws kData, naming the entry: see read_entries().
  void make(const rapidjson::Value& value, std::size_t index, CocoEntry& entry);

 private:
  void take_field(std::size_t field, const rapidjson::Value& value);
  void take(std::string_view key, const rapidjson::Value& value, std::int64_t& integer) const;
  void take(std::string_view key, const rapidjson::Value& value, double& number) const;
  void take(std::string_view key, const rapidjson::Value& value, bool& flag) const;
  void take(std::string_view key, const rapidjson::Value& value, std::string_view& text) const;
  void take(std::string_view key, const rapidjson::Value& value, std::array<double, 4>& box) const;
  void take_attributes(const rapidjson::Value& value);
  void check_finite() const;
  [[noreturn]] void wrong_type(std::string_view key, const rapidjson::Value& got,
                               const char* want) const;
  [[noreturn]] void fail(const std::string& problem, const std::string& hint = "") const;

  const std::string& path_;
  const CocoList& list_;
  unsigned needed_, wanted_;  // one bit per field
  std::size_t index_ = 0;
  CocoEntry* entry_ = nullptr;
};

// Makes entries of text. If it returns false, the same text must go through EntryMaker.
class QuickEntryMaker {
 public:
  QuickEntryMaker(const CocoList& list, JsonScanner& scanner);

  // Fills an empty entry; the scanner must be at its "{".
  bool make(CocoEntry& entry);

 private:
  bool skip(std::string_view key);
  bool take_attributes();
  bool take(std::int64_t& integer) { return scanner_.take_integer(integer); }
  bool take(double& number) { return scanner_.take_number(number); }
  bool take(std::array<double, 4>& box) { return scanner_.take_box(box); }
  bool take(std::string_view& text);
  bool take(bool& flag);

  JsonScanner& scanner_;
  unsigned needed_, wanted_;  // one bit per field
  // The field that followed each field last time, and the first one; all unread fields count as
  // one.
  std::array<std::size_t, kCocoFields + 1> next_{};
  CocoEntry* entry_ = nullptr;
};

}  // namespace retina
