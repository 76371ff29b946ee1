#include "shared/base/json.h"

#include <rapidjson/error/en.h>
#include <rapidjson/memorystream.h>
#include <rapidjson/prettywriter.h>
#include <rapidjson/reader.h>

#include <algorithm>
#include <cmath>
#include <new>

#include "shared/base/error.h"
#include "shared/base/exact_number.h"
#include "shared/base/file.h"
#include "shared/base/foreign_content.h"
#include "shared/base/printable.h"
#include "shared/base/text_encoding.h"

namespace retina {
namespace {

// No recursion, so that deep nesting cannot crash the process.
constexpr unsigned kParseFlags =
    rapidjson::kParseNumbersAsStringsFlag | rapidjson::kParseIterativeFlag;
constexpr unsigned kForeignFlags =
    kParseFlags | rapidjson::kParseNanAndInfFlag | rapidjson::kParseValidateEncodingFlag;

std::string show(const rapidjson::Value& value) {
  if (value.IsObject()) return "an object";
  if (value.IsArray()) return "an array";
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
  value.Accept(writer);
  return escaped({buffer.GetString(), buffer.GetSize()}, 60);
}

// Document whose numbers are converted by exact_number.h.
struct ExactDocument : rapidjson::Document {
  bool takes_infinities = false;

  bool RawNumber(const char* text, rapidjson::SizeType size, bool) {
    const std::string_view number(text, size);
    if (number == "-0") return Double(-0.0);
    if (const auto integer = exact_number<std::int64_t>(number)) return Int64(*integer);
    if (const auto integer = exact_number<std::uint64_t>(number)) return Uint64(*integer);
    const double real = exact_double(number);
    return (takes_infinities || std::isfinite(real)) && Double(real);
  }
};

// Calls `write(characters, length)` with the text, converted to UTF-8 if it is not.
template <class Write>
void with_utf8(std::string_view text, const Write& write) {
  const auto pass = [&](std::string_view utf8) {
    write(utf8.data(), static_cast<rapidjson::SizeType>(utf8.size()));
  };
  if (is_utf8(text)) return pass(text);
  pass(as_utf8(text));
}

}  // namespace

bool JsonView::has(const char* key) const {
  return value_->IsObject() && value_->HasMember(key);
}

JsonView JsonView::at(const char* key) const {
  const auto member = wanted(value_->IsObject(), "an object").FindMember(key);
  if (member == value_->MemberEnd()) fail(cat("key \"", key, "\" is missing"));
  return {member->value, cat(place_, ": ", key)};
}

JsonView JsonView::at(std::size_t index) const {
  if (index >= size()) fail(cat("has ", size(), " elements, want at least ", index + 1));
  return {(*value_)[static_cast<rapidjson::SizeType>(index)], cat(place_, "[", index, "]")};
}

std::string JsonView::as_string() const {
  const rapidjson::Value& text = wanted(value_->IsString(), "a string");
  return {text.GetString(), text.GetStringLength()};
}

const rapidjson::Value& JsonView::wanted(bool is_it, const char* type) const {
  if (!is_it) fail(cat("got ", show(*value_), ", want ", type));
  return *value_;
}

void JsonView::fail(const std::string& problem) const {
  throw Error(ErrorKind::kData, cat(place_, ": ", problem));
}

namespace {

// Passes the text's values to RapidJSON's handler. Throws as JsonFile::parse().
template <unsigned flags, class Events>
void parse_events(std::string_view text, const std::string& name, Events& events) {
  const std::size_t mark_bytes = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  rapidjson::MemoryStream stream(text.data() + mark_bytes, text.size() - mark_bytes);
  rapidjson::Reader reader;
  const rapidjson::ParseResult result = reader.Parse<flags>(stream, events);
  if (!result.IsError()) return;
  if (const auto foreign = foreign_content(text.substr(0, 512))) {
    throw Error(ErrorKind::kData, cat(name, ": got ", foreign->what, ", want JSON"), foreign->hint);
  }
  const std::string start(text.substr(0, std::min<std::size_t>(text.find_first_of("\r\n"), 512)));
  if (name_matches(start, "[^][{}]*,[^][{}]*,[^][{}]*")) {
    throw Error(ErrorKind::kData, cat(name, ": got CSV, want JSON"));
  }
  const rapidjson::ParseErrorCode code = result.Code() == rapidjson::kParseErrorTermination
                                             ? rapidjson::kParseErrorNumberTooBig
                                             : result.Code();
  const std::size_t byte = std::min(result.Offset() + mark_bytes, text.size());
  const std::string_view before = text.substr(0, byte);
  // Without a newline npos + 1 is 0.
  throw Error(
      ErrorKind::kData,
      cat(name, ": not valid JSON at line ", std::count(before.begin(), before.end(), '\n') + 1,
          ", column ", byte - (before.rfind('\n') + 1) + 1, ", byte ", byte, " (",
          rapidjson::GetParseError_En(code), ")"),
      byte == text.size() ? "the file ends too early; copy it again" : "");
}

// Throws as JsonFile::parse().
template <unsigned flags>
rapidjson::Document parse_document(std::string_view text, const std::string& name) {
  ExactDocument document;
  document.takes_infinities = flags == kForeignFlags;
  auto read = [&](rapidjson::Document&) {
    parse_events<flags>(text, name, document);
    return true;
  };
  document.Populate(read);
  return std::move(static_cast<rapidjson::Document&>(document));
}

}  // namespace

JsonFile JsonFile::read(const std::string& path) {
  return parse(read_text(path), path);
}

JsonFile JsonFile::parse(std::string_view text, std::string name) {
  return {parse_document<kParseFlags>(text, name), name};
}

JsonFile JsonFile::parse_foreign(std::string_view text, std::string name) {
  return {parse_document<kForeignFlags>(text, name), name};
}

void check_foreign_json_file(const std::string& path) try {
  rapidjson::BaseReaderHandler<> nobody;
  parse_events<kForeignFlags>(read_file(path), path, nobody);
} catch (const Error& error) {
  if (error.kind() != ErrorKind::kUnavailable) throw;
} catch (const std::bad_alloc&) {
}

JsonWriter& JsonWriter::key(std::string_view name) {
  with_utf8(name, [&](const char* text, rapidjson::SizeType length) { writer_.Key(text, length); });
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  with_utf8(text,
            [&](const char* utf8, rapidjson::SizeType length) { writer_.String(utf8, length); });
  return *this;
}

JsonWriter& JsonWriter::value(double number) {
  if (!std::isfinite(number)) return null();
  const std::string text = shortest(number);
  writer_.RawValue(text.data(), text.size(), rapidjson::kNumberType);
  return *this;
}

namespace {

// Writes numbers as they are: RapidJSON's own RawNumber writes the digits as a string, in quotes.
class PrettyNumbers : public rapidjson::PrettyWriter<rapidjson::StringBuffer> {
 public:
  using PrettyWriter::PrettyWriter;
  bool RawNumber(const char* digits, rapidjson::SizeType count, bool) {
    return RawValue(digits, count, rapidjson::kNumberType);
  }
};

}  // namespace

std::string JsonWriter::pretty_text() const {
  rapidjson::StringBuffer pretty;
  PrettyNumbers writer(pretty);
  writer.SetIndent(' ', 2);
  writer.SetFormatOptions(rapidjson::kFormatSingleLineArray);
  rapidjson::StringStream stream(buffer_.GetString());
  rapidjson::Reader reader;
  reader.Parse<rapidjson::kParseNumbersAsStringsFlag>(stream, writer);
  RETINA_CHECK(!reader.HasParseError(), "JsonWriter produced bad JSON");
  return cat(std::string_view(pretty.GetString(), pretty.GetSize()), "\n");
}

JsonFile parse_versioned_json(std::string_view text, const std::string& path, int version) {
  JsonFile json = JsonFile::parse(text, path);
  const std::int64_t got = json.root().at("format_version").as_int();
  if (got != version) {
    throw Error(ErrorKind::kData,
                cat(path, ": written by ", got > version ? "a newer" : "an earlier",
                    " version (format got ", got, ", want ", version, ")"),
                got > version ? "update retina-batch" : "train or convert again with this version");
  }
  return json;
}

}  // namespace retina
