// JSON in and out (RapidJSON, full-precision numbers). Parse errors name line and column; typed
// access names the path inside the file: "manifest.json: shards[3].records: got "x", want integer".
#pragma once

#include <rapidjson/document.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace retina {

// A value inside a parsed document, with its place for error messages. Valid while its JsonFile
// lives. All typed getters throw Error{kData}.
class JsonView {
 public:
  JsonView(const rapidjson::Value& value, std::string place)
      : value_(&value), place_(std::move(place)) {}

  bool has(const char* key) const;
  JsonView at(const char* key) const;    // throws if missing
  JsonView at(std::size_t index) const;  // throws if out of range
  std::size_t size() const { return wanted(value_->IsArray(), "an array").Size(); }
  const std::string& place() const { return place_; }
  const rapidjson::Value& raw() const { return *value_; }

  std::int64_t as_int() const { return wanted(value_->IsInt64(), "an integer").GetInt64(); }
  std::uint64_t as_uint() const {
    return wanted(value_->IsUint64(), "an integer >= 0").GetUint64();
  }
  double as_double() const { return wanted(value_->IsNumber(), "a number").GetDouble(); }
  bool as_bool() const { return wanted(value_->IsBool(), "true or false").GetBool(); }
  std::string as_string() const;

  // Throws Error{kData}: "PLACE: PROBLEM".
  [[noreturn]] void fail(const std::string& problem) const;

 private:
  // Returns the value; throws Error{kData} unless `is_it`, naming the wanted type.
  const rapidjson::Value& wanted(bool is_it, const char* type) const;

  const rapidjson::Value* value_;
  std::string place_;
};

// A parsed document. `name` (usually its path) begins every error message.
class JsonFile {
 public:
  // Throws kNoInput / kIo (reading), kData: "NAME: not valid JSON at line L, column C, byte B
  // (REASON)", or, if the text is of another known kind (see foreign_content.h), "NAME: got a web
  // page (HTML), want JSON".
  static JsonFile read(const std::string& path);
  static JsonFile parse(std::string_view text, std::string name);
  // Parses a text from other programs, as Python's json writes it: NaN and infinities are numbers.
  // Throws as parse(), and kData for text that is not UTF-8.
  static JsonFile parse_foreign(std::string_view text, std::string name);
  JsonView root() const { return {document_, name_}; }

 private:
  JsonFile(rapidjson::Document document, std::string name)
      : document_(std::move(document)), name_(std::move(name)) {}
  rapidjson::Document document_;
  std::string name_;
};

// Parses a document whose `format_version` is `version`. Throws kData naming `path`: not JSON, no
// version, written by another one.
JsonFile parse_versioned_json(std::string_view text, const std::string& path, int version);

// Throws as JsonFile::parse_foreign() for the file at `path`, without the memory for a document;
// passes over one that is larger than memory.
void check_foreign_json_file(const std::string& path);

inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // written by Windows editors

// Builds JSON text. f64 print as the shortest text that reads back equal; non-finite ones as null.
// Always UTF-8: in a string that is not, the invalid bytes become "\\x80" (as_utf8()).
class JsonWriter {
 public:
  JsonWriter() : writer_(buffer_) {}
  JsonWriter& begin_object() { return writer_.StartObject(), *this; }
  JsonWriter& end_object() { return writer_.EndObject(), *this; }
  JsonWriter& begin_array() { return writer_.StartArray(), *this; }
  JsonWriter& end_array() { return writer_.EndArray(), *this; }
  JsonWriter& key(std::string_view name);
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(bool flag) { return writer_.Bool(flag), *this; }
  JsonWriter& value(double number);
  JsonWriter& value(int number) { return value(static_cast<std::int64_t>(number)); }
  JsonWriter& value(std::int64_t number) { return writer_.Int64(number), *this; }
  JsonWriter& value(std::uint64_t number) { return writer_.Uint64(number), *this; }
  JsonWriter& null() { return writer_.Null(), *this; }
  // Inserts text that is JSON already.
  JsonWriter& raw(std::string_view json) {
    return writer_.RawValue(json.data(), json.size(), rapidjson::kObjectType), *this;
  }
  template <class T>
  JsonWriter& field(std::string_view name, const T& content) {
    return key(name).value(content);
  }
  // Writes an array of values that value() takes, or a field with it.
  template <class List>
  JsonWriter& list(const List& items) {
    begin_array();
    for (const auto& item : items) value(item);
    return end_array();
  }
  template <class List>
  JsonWriter& list(std::string_view name, const List& items) {
    return key(name).list(items);
  }
  // Returns the text on one line.
  std::string text() const { return {buffer_.GetString(), buffer_.GetSize()}; }
  // Returns the text indented, with a newline at its end.
  std::string pretty_text() const;

 private:
  rapidjson::StringBuffer buffer_;
  rapidjson::Writer<rapidjson::StringBuffer> writer_;
};

}  // namespace retina
