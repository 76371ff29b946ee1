#include "shared/checkpoint/foreign/script_archive.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "shared/base/error.h"
#include "shared/base/printable.h"
#include "shared/checkpoint/foreign/pickle_globals.h"
#include "shared/checkpoint/foreign/pickle_reader.h"

namespace retina {
namespace {

// The same list, and the same forms of code, as in jobs/serving/checked_model.py.
constexpr std::string_view kFolder = "archive/", kTensors = "data/", kPickle = "data.pkl",
                           kConstants = "constants.pkl", kCode = "code/__torch__/retina.py",
                           kDebugPickle = "code/__torch__/retina.py.debug_pkl";
constexpr std::array<std::string_view, 8> kRecords = {kPickle,
                                                      kConstants,
                                                      kCode,
                                                      kDebugPickle,
                                                      "version",
                                                      "byteorder",
                                                      "extra/retina.json",
                                                      ".data/serialization_id"};
constexpr std::string_view kNoConstants("\x80\x02).", 4);  // an empty tuple
constexpr std::array<std::string_view, 7> kAttributeTypes = {
    "Tensor", "bool", "int", "float", "str", "List[str]", "List[int]"};
constexpr std::string_view kClassPrefix = "__torch__.retina.";

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_name(std::string_view text) {
  return !text.empty() && !is_digit(text[0]) && std::all_of(text.begin(), text.end(), is_word);
}

template <class List>
bool holds(const List& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

// Removes `start` from the front of `text`, if it is there.
bool take(std::string_view& text, std::string_view start) {
  if (!text.starts_with(start)) return false;
  text.remove_prefix(start.size());
  return true;
}

// Types, as code prints them, and `more`; brackets close.
bool is_types(std::string_view text, std::string_view more) {
  int open = 0;
  for (const char c : text) {
    if (c == '[') ++open;
    if (c == ']' && --open < 0) return false;
    const bool known = is_word(c) || std::string_view(".,[] ").find(c) != std::string_view::npos;
    if (!known && more.find(c) == std::string_view::npos) return false;
  }
  return open == 0;
}

// One line of code at a time. Only bodies of methods are left to LibTorch's parser, which compiles
// but does not run them; no character of a body can end it before its indentation does.
class CodeCheck {
 public:
  CodeCheck(std::string_view code, const std::string& subject) : rest_(code), subject_(subject) {}

  void run() {
    bool in_class = false, in_method = false;
    while (!rest_.empty()) {
      std::string_view line = next_line();
      const std::size_t indent = line.find_first_not_of(' ');
      if (indent == std::string_view::npos) refuse("is empty");
      line.remove_prefix(indent);
      if (indent == 0) {
        check_class(line);
        in_class = true;
        in_method = false;
      } else if (indent == 2 && in_class) {
        in_method = line.starts_with("def ");
        in_method ? check_method(line) : check_attribute(line);
      } else if (indent < 4 || !in_method) {
        refuse("is outside a method");
      }
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    throw Error(ErrorKind::kData,
                cat(subject_, ": ", kCode, ", line ", line_, ": ", problem,
                    ", which retina-convert never writes"),
                kTrustHint);
  }

  std::string_view next_line() {
    ++line_;
    const std::size_t end = rest_.find('\n');
    if (end == std::string_view::npos) refuse("has no end");
    const std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    for (const char c : line) {
      if (c < ' ' || c > '~' || std::string_view("\\'#;").find(c) != std::string_view::npos) {
        refuse(cat("holds the byte ", static_cast<int>(static_cast<unsigned char>(c))));
      }
    }
    if (line.find("\"\"\"") != std::string_view::npos) refuse("opens a multi-line string");
    return line;
  }

  void check_class(std::string_view line) const {
    const bool known = take(line, "class ") && line.ends_with("(Module):") &&
                       is_name(line.substr(0, line.find('(')));
    if (!known) refuse("is not the head of a module");
  }

  // NAME : TYPE, or the lists of parameters and buffers.
  void check_attribute(std::string_view line) const {
    if (line == "__buffers__ = []") return;
    std::string_view names = line;
    if (take(names, "__parameters__ = [")) {
      while (take(names, "\"")) {
        const std::size_t end = names.find("\", ");
        if (end == std::string_view::npos || !is_name(names.substr(0, end))) break;
        names.remove_prefix(end + 3);
      }
      if (names == "]") return;
    }
    const std::size_t colon = line.find(" : ");
    if (colon == std::string_view::npos) refuse(cat("has the line ", printable(line)));
    const std::string_view name = line.substr(0, colon);
    std::string_view type = line.substr(colon + 3);
    const bool known =
        is_name(name) && !name.starts_with("__") &&
        (holds(kAttributeTypes, type) || (take(type, kClassPrefix) && is_name(type)));
    if (!known) refuse(cat("has the attribute ", printable(line)));
  }

  // def NAME(self: TYPE, ...) -> TYPE: on one or more lines. A default value would be computed
  // while LibTorch loads.
  void check_method(std::string_view first_line) {
    std::string head(first_line);
    while (head.ends_with(",")) head += next_line();
    std::string_view rest = head;
    take(rest, "def ");
    const std::string_view name = rest.substr(0, rest.find('('));
    if (name.starts_with("__")) {
      refuse(cat("defines ", printable(name), ", which LibTorch may call on its own"));
    }
    const std::size_t close = rest.find(") -> ");
    const bool known = is_name(name) && name.size() < rest.size() &&
                       close != std::string_view::npos && close > name.size() &&
                       rest.ends_with(":") &&
                       is_types(rest.substr(name.size() + 1, close - name.size() - 1), ":") &&
                       is_types(rest.substr(close + 5, rest.size() - close - 6), "");
    if (!known) refuse(cat("has the signature ", printable(head)));
  }

  std::string_view rest_;
  const std::string& subject_;
  std::size_t line_ = 0;
};

std::string record(std::string_view name) {
  return cat(kFolder, name);
}

bool is_record(std::string_view name) {
  if (!take(name, kFolder)) return false;
  if (holds(kRecords, name)) return true;
  return take(name, kTensors) && !name.empty() && std::all_of(name.begin(), name.end(), is_digit);
}

void check_pickle(const StoredZip& zip, std::string_view name, const std::string& bytes,
                  const std::string& subject) {
  const PickleDocument pickle = read_pickle(bytes, cat(subject, ": ", name));
  for (const PickleValue& value : pickle.values) {
    if (value.kind != PickleKind::kStorage) continue;
    const std::string tensor = cat(kTensors, value.text);
    const std::uint64_t got_bytes = zip.size_bytes(record(tensor));
    std::uint64_t want_bytes = 0;
    if (value.integer < 0 ||
        __builtin_mul_overflow(static_cast<std::uint64_t>(value.integer),
                               element_bytes(value.element), &want_bytes) ||
        got_bytes != want_bytes) {
      throw Error(ErrorKind::kData,
                  cat(subject, ": ", printable(tensor), " has a different size than ", name,
                      " says (got ", got_bytes, " bytes, want ", value.integer, " elements of ",
                      element_bytes(value.element), ")"));
    }
  }
}

}  // namespace

void check_script_archive(const StoredZip& zip,
                          const std::function<std::string(std::string_view)>& read,
                          const std::string& subject) {
  for (const std::string_view name : zip.names()) {
    if (!is_record(name)) {
      throw Error(ErrorKind::kData,
                  cat(subject, ": holds the record ", printable(name),
                      ", which retina-convert never writes"),
                  kTrustHint);
    }
  }
  for (const std::string_view name : {kPickle, kConstants, kCode}) zip.size_bytes(record(name));
  if (read(kConstants) != kNoConstants) {
    throw Error(ErrorKind::kData, cat(subject, ": its constants.pkl is not empty"), kTrustHint);
  }
  const std::string code = read(kCode);
  CodeCheck(code, subject).run();
  try {
    for (const std::string_view name : {kPickle, kDebugPickle}) {
      if (zip.has(record(name))) check_pickle(zip, name, read(name), subject);
    }
  } catch (const Error& error) {
    throw Error(error.kind(), error.what(), kTrustHint);
  }
}

}  // namespace retina
