#include "shared/cli/cli.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <charconv>
#include <cmath>
#include <iostream>
#include <limits>
#include <set>
#include <sstream>
#include <type_traits>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/json.h"
#include "shared/base/log.h"
#include "shared/base/url.h"
#include "shared/base/version.h"

namespace retina {
namespace {

namespace po = boost::program_options;

[[noreturn]] void fail_value(const std::string& name, const std::string& got,
                             const std::string& want) {
  throw Error(ErrorKind::kUsage,
              cat("--", name, ": bad value (got \"", got, "\", want ", want, ")"));
}

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

template <class T>
T parse_value(const std::string& name, const std::string& text) {
  if constexpr (std::is_same_v<T, std::string>) {
    return text;
  } else if constexpr (IsOptional<T>::value) {
    return parse_value<typename T::value_type>(name, text);
  } else if constexpr (IsVector<T>::value) {
    T values;
    std::istringstream stream(text);
    for (std::string item; std::getline(stream, item, ',');) {
      values.push_back(parse_value<typename T::value_type>(name, item));
    }
    if (values.empty()) fail_value(name, text, "values separated by commas");
    return values;
  } else {
    T value{};
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    bool good = result.ec == std::errc() && result.ptr == text.data() + text.size();
    if constexpr (std::is_floating_point_v<T>) good = good && std::isfinite(value);
    if constexpr (std::is_integral_v<T>) {
      using Limits = std::numeric_limits<T>;
      const bool negative = std::is_unsigned_v<T> && text.starts_with('-');
      if (result.ec == std::errc::result_out_of_range || negative) {
        fail_value(name, text, cat("a whole number from ", Limits::min(), " to ", Limits::max()));
      }
    }
    if (!good) fail_value(name, text, std::is_floating_point_v<T> ? "a number" : "a whole number");
    return value;
  }
}

// "above 0 to 1000", "at least 1".
std::string range_text(const OptionRules& rules) {
  const auto text_of_bound = [](double bound) {
    const auto whole = static_cast<std::int64_t>(bound);
    return static_cast<double>(whole) == bound ? cat(whole) : shortest(bound);
  };
  std::string text;
  if (rules.above) text = cat("above ", text_of_bound(*rules.above));
  if (rules.least) text = text_of_bound(*rules.least);
  if (!rules.most && !rules.below) return rules.least ? cat("at least ", text) : text;
  return cat(text, " to ", rules.below ? "below " : "",
             text_of_bound(rules.below ? *rules.below : *rules.most));
}

template <class T>
bool is_in_range(const T& value, const OptionRules& rules) {
  if constexpr (IsOptional<T>::value) {
    return is_in_range(*value, rules);
  } else if constexpr (IsVector<T>::value) {
    return std::all_of(value.begin(), value.end(),
                       [&](const auto& one) { return is_in_range(one, rules); });
  } else if constexpr (std::is_arithmetic_v<T>) {
    const auto number = static_cast<double>(value);
    return (!rules.least || number >= *rules.least) && (!rules.above || number > *rules.above) &&
           (!rules.most || number <= *rules.most) && (!rules.below || number < *rules.below);
  } else {
    return true;
  }
}

template <class T>
std::string show_value(const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return value;
  } else if constexpr (IsOptional<T>::value) {
    return value ? show_value(*value) : "";
  } else if constexpr (IsVector<T>::value) {
    std::string text;
    for (const auto& item : value) text += cat(text.empty() ? "" : ",", show_value(item));
    return text;
  } else if constexpr (std::is_floating_point_v<T>) {
    return shortest(value);
  } else {
    return std::to_string(value);
  }
}

template <class T>
void write_value(JsonWriter& json, const T& value) {
  if constexpr (IsOptional<T>::value) {
    if (value) {
      write_value(json, *value);
    } else {
      json.null();
    }
  } else if constexpr (IsVector<T>::value) {
    json.begin_array();
    for (const auto& item : value) write_value(json, item);
    json.end_array();
  } else {
    json.value(value);
  }
}

template <class T>
std::string json_value(const T& value) {
  JsonWriter json;
  write_value(json, value);
  return json.text();
}

std::uint64_t parse_bytes(const std::string& name, const std::string& text) {
  static const std::vector<std::pair<std::string, double>> kUnits = {
      {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"B", 1.0}, {"", 1.0}};
  for (const auto& [unit, scale] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const std::string digits = text.substr(0, text.size() - unit.size());
    double value = 0;
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (digits.empty() || result.ec != std::errc() || result.ptr != digits.data() + digits.size() ||
        !(value >= 0) || value * scale > 0x1p60) {
      break;
    }
    return static_cast<std::uint64_t>(value * scale);
  }
  fail_value(name, text, "a size such as 256MiB");
}

// A value of a config file as the command line has it.
std::string text_of(const JsonView& view) {
  if (view.raw().IsString()) return view.as_string();
  if (view.raw().IsBool()) return view.as_bool() ? "true" : "false";
  if (view.raw().IsInt64()) return std::to_string(view.as_int());
  if (view.raw().IsUint64()) return std::to_string(view.as_uint());
  return shortest(view.as_double());
}

// A member of an object, with its values as a command line has them: unset for null.
struct Member {
  std::string name{};
  std::optional<std::vector<std::string>> values{};
};

std::vector<Member> members_of(const JsonView& object, const std::string& source) {
  std::vector<Member> members;
  for (const auto& one : object.raw().GetObject()) {
    Member& member = members.emplace_back();
    member.name.assign(one.name.GetString(), one.name.GetStringLength());
    const JsonView item(one.value, cat(source, ": ", member.name));
    if (item.raw().IsNull()) continue;
    member.values.emplace();
    const std::size_t count = item.raw().IsArray() ? item.size() : 1;
    for (std::size_t i = 0; i < count; ++i) {
      member.values->push_back(text_of(item.raw().IsArray() ? item.at(i) : item));
    }
  }
  return members;
}

// Returns "batch-size" of "Batch_Size".
std::string foreign_name(std::string name) {
  for (char& c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '_' || c == '.') c = '-';
  }
  return name;
}

bool has_word(const std::string& words, const std::string& word) {
  return cat(" ", words, " ").find(cat(" ", word, " ")) != std::string::npos;
}

std::string without_dashes(std::string name) {
  return name.erase(0, name.find_first_not_of('-'));
}

// Returns a message's name of an option: "tile overlap" of that part.
std::string shown_name(const std::string& name, const OptionRules& rules) {
  return rules.part_of.empty() ? name : cat(rules.part_of, " ", rules.key_of_part(name));
}

// Returns the insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`
// (optimal string alignment).
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector rows(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      std::size_t& least = rows[i][j] = std::max(i, j);
      if (i == 0 || j == 0) continue;
      const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      least = std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1, rows[i - 1][j - 1] + change});
      const bool swaps = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swaps) least = std::min(least, rows[i - 2][j - 2] + 1);
    }
  }
  return rows[a.size()][b.size()];
}

// Returns the first candidate with the smallest edit distance to `name`; "" when none is near: more
// than half of its letters, and two, would have to change.
std::string nearest_match(const std::string& name, const std::vector<std::string>& candidates) {
  std::string nearest;
  std::size_t best = name.size() / 2 + 2;
  for (const auto& candidate : candidates) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::string bytes_text(std::uint64_t value) {
  return value % 1048576 == 0 ? cat(value / 1048576, "MiB") : cat(value);
}

}  // namespace

Cli::Cli(std::string program, std::string usage, std::string summary)
    : program_(std::move(program)), usage_(std::move(usage)), summary_(std::move(summary)) {}

void Cli::add(Option option) {
  RETINA_CHECK(find(option.name) == nullptr, option.name, " declared twice");
  option.group = group_;
  option.initial = option.show();
  option_texts_.push_back(option.is_flag ? "" : option.initial);
  options_.push_back(std::move(option));
}

void Cli::add_option(const std::string& name, Target target, const std::string& value_name,
                     const std::string& help, const OptionRules& rules) {
  std::visit(
      [&](auto* value) {
        using T = std::remove_pointer_t<decltype(value)>;
        add({.name = name,
             .value_name = value_name,
             .help = help,
             .target = value,
             .assign =
                 [name = shown_name(name, rules), value, rules](const std::string& text) {
                   T parsed = parse_value<T>(name, text);
                   if (!is_in_range(parsed, rules)) fail_value(name, text, range_text(rules));
                   *value = std::move(parsed);
                 },
             .show = [value] { return show_value(*value); },
             .json = [value] { return json_value(*value); },
             .rules = rules});
      },
      target);
}

// "(got x, want a number)" of an option that takes "auto", too.
std::string Cli::with_auto(std::string message) {
  const std::string want = "want ";
  if (const std::size_t at = message.rfind(want); at != std::string::npos) {
    message.insert(at + want.size(), cat(kAuto, " or "));
  }
  return message;
}

void Cli::let_be_auto(const std::function<void()>& reset) {
  Option& option = options_.back();
  const auto assign = option.assign;
  option.assign = [assign, reset](const std::string& text) {
    if (text == kAuto) return reset();
    try {
      assign(text);
    } catch (const Error& error) {
      throw Error(error.kind(), with_auto(error.what()), error.hint());
    }
  };
  if (option_texts_.back().empty()) option_texts_.back() = kAuto;
}

void Cli::flag(const std::string& name, bool& target, const std::string& help,
               const OptionRules& rules) {
  add({.name = name,
       .help = help,
       .target = &target,
       .is_flag = true,
       .assign =
           [name, &target](const std::string& text) {
             if (text != "true" && text != "false") fail_value(name, text, "true or false");
             target = text == "true";
           },
       .show = [&target] { return std::string(target ? "true" : "false"); },
       .json = [&target] { return std::string(target ? "true" : "false"); },
       .rules = rules});
}

void Cli::add_choice(const std::string& name, const void* target, const std::string& list,
                     const std::string& help, Words words, const OptionRules& rules) {
  add({.name = name,
       .value_name = list,
       .help = help,
       .target = target,
       .assign =
           [name = shown_name(name, rules), list,
            take = std::move(words.take)](const std::string& text) {
             if (!take(text)) fail_value(name, text, list);
           },
       .show = words.word,
       .json =
           [word = words.word] {
             const std::string text = word();
             return text.empty() ? "null" : json_value(text);
           },
       .rules = rules});
}

void Cli::preset(const std::string& name, std::string& target, Presets presets,
                 const std::string& help, const OptionRules& rules) {
  std::vector<std::string> values = {"none"};
  if (target != values.front()) values.insert(values.begin(), target);
  for (const auto& [value, settings] : presets) values.push_back(value);
  choice(name, target, plain_choices(values), help, rules);
  presets_.push_back([presets = std::move(presets), &target](const Setter& set) {
    for (const auto& [value, settings] : presets) {
      if (value == target) settings(set);
    }
  });
}

Setter Cli::setter(Origin origin, std::set<const void*> kept) {
  return Setter([this, origin, kept = std::move(kept)](const void* target) {
    Option& row = row_of(target);
    if (is_given(row) || kept.contains(target)) return false;
    row.origin = origin;
    return true;
  });
}

void Cli::apply_presets() {
  for (const auto& preset : presets_) preset(setter(Origin::kPreset));
  if (implied_) implied_(setter(Origin::kDefault));
}

bool Cli::assign_stored(Option& row, const OptionTexts& before) {
  const auto stored = before.find(row.name);
  if (stored == before.end()) return false;
  if (is_given(row)) return true;
  row.assign(stored->second);
  row.origin = Origin::kData;
  return true;
}

std::string Cli::decisions() const {
  JsonWriter json;
  json.begin_object();
  for (const Option& option : options_) {
    if (option.origin == Origin::kData) json.key(option.name).raw(option.json());
  }
  return json.end_object().text();
}

void Cli::take_decisions(const std::string& json) {
  const JsonFile file = JsonFile::parse(json, "decisions");
  for (const auto& [name, values] : members_of(file.root(), "decisions")) {
    Option& option = *find(name);
    option.assign(values ? show_value(*values) : kAuto);
    option.origin = Origin::kData;
  }
}

void Cli::check() const {
  for (const auto& check_options : checks_) check_options(*this);
}

template <class T>
void Cli::bytes(const std::string& name, T& target, const std::string& help,
                const OptionRules& rules) {
  const auto show = [&target]() -> std::string {
    if constexpr (IsOptional<T>::value)
      return target ? bytes_text(*target) : "";
    else
      return bytes_text(target);
  };
  add({.name = name,
       .value_name = "BYTES",
       .help = help,
       .target = &target,
       .assign =
           [name, &target, rules](const std::string& text) {
             const std::uint64_t parsed = parse_bytes(name, text);
             if (!is_in_range(parsed, rules)) fail_value(name, text, range_text(rules));
             target = parsed;
           },
       .show = show,
       .json = [&target] { return json_value(target); },
       .rules = rules});
}

template void Cli::bytes(const std::string&, std::uint64_t&, const std::string&,
                         const OptionRules&);
template void Cli::bytes(const std::string&, std::optional<std::uint64_t>&, const std::string&,
                         const OptionRules&);

void Cli::pair(const std::string& name, std::array<std::string, 2>& target,
               const std::string& value_names, const std::string& help, const OptionRules& rules) {
  add({.name = name,
       .value_name = value_names,
       .help = help,
       .target = &target,
       .show = [&target] { return target[0].empty() ? "" : cat(target[0], ' ', target[1]); },
       .json =
           [&target] {
             if (target[0].empty()) return std::string("null");
             return json_value(std::vector<std::string>(target.begin(), target.end()));
           },
       .assign_values =
           [name, value_names, &target](const std::vector<std::string>& values) {
             if (values.size() != target.size()) {
               throw Error(ErrorKind::kUsage, cat("--", name, ": wants two values, ", value_names,
                                                  " (got ", values.size(), ")"));
             }
             std::copy(values.begin(), values.end(), target.begin());
           },
       .rules = rules});
}

void Cli::list(const std::string& name, std::vector<std::string>& target,
               const std::string& value_names, const std::string& help, const OptionRules& rules) {
  add({.name = name,
       .value_name = value_names,
       .help = help,
       .target = &target,
       .show = [&target] { return show_value(target); },
       .json = [&target]() -> std::string {
         if (target.empty()) return "null";
         return target.size() == 1 ? json_value(target.front()) : json_value(target);
       },
       .assign_values = [&target](const std::vector<std::string>& values) { target = values; },
       .repeats = true,
       .rules = rules});
}

const Cli::Option* Cli::find(const std::string& name) const {
  const auto found = std::find_if(options_.begin(), options_.end(),
                                  [&](const Option& option) { return option.name == name; });
  return found == options_.end() ? nullptr : &*found;
}

Cli::Option* Cli::find(const std::string& name) {
  return const_cast<Option*>(std::as_const(*this).find(name));
}

const Cli::Option& Cli::row_of(const void* target) const {
  const auto found = std::find_if(options_.begin(), options_.end(),
                                  [&](const Option& option) { return option.target == target; });
  RETINA_CHECK(found != options_.end(), "a value that no option has");
  return *found;
}

Cli::Option& Cli::row_of(const void* target) {
  return const_cast<Option&>(std::as_const(*this).row_of(target));
}

bool Cli::has_what_it_needs(const Option& option) const {
  const std::string& needs = option.rules.needs;
  const std::size_t equals = needs.find('=');
  const Option* const other = find(needs.substr(0, equals));
  RETINA_CHECK(needs.empty() || other != nullptr, option.name, " needs the unknown ", needs);
  if (needs.empty()) return true;
  return equals == std::string::npos ? other->show() != other->initial
                                     : other->show() == needs.substr(equals + 1);
}

void Cli::check_mode(unsigned modes, const std::string& mode) const {
  std::string meaningless;
  int count = 0;
  for (const Option& option : options_) {
    if (option.show() == option.initial) continue;
    if ((option.rules.modes & modes) == 0) {
      meaningless += cat(count++ > 0 ? ", --" : "--", shown_name(option.name, option.rules));
    } else if (!has_what_it_needs(option)) {
      const std::string& needs = option.rules.needs;
      const std::string other = needs.substr(0, needs.find('='));
      const bool is_valued = other != needs;
      throw Error(ErrorKind::kUsage,
                  cat("--", shown_name(option.name, option.rules), ": has no effect ",
                      is_valued ? "with --" : "without --", other,
                      is_valued ? cat(" ", find(other)->show()) : ""),
                  presets_.empty() || option.initial.empty()
                      ? "leave it out"
                      : cat("leave it out, or set ", option.name, " to ", option.initial,
                            " where a recipe sets it"));
    }
  }
  if (count == 0) return;
  throw Error(ErrorKind::kUsage,
              cat(meaningless, count > 1 ? ": have" : ": has", " no effect with ", mode),
              count > 1 ? "leave them out" : "leave it out");
}

void Cli::fail_unknown(const std::string& name) const {
  const std::string shown = cat(name.size() == 1 ? "-" : "--", name);
  const Option* const known = find(name);
  if (known != nullptr && !known->rules.part_of.empty()) {
    const std::string& whole = known->rules.part_of;
    throw Error(ErrorKind::kUsage, cat(shown, ": is a part of --", whole),
                cat("give --", whole, " ", find(whole)->value_name, ",",
                    known->rules.key_of_part(name), "=VALUE"));
  }
  if (known != nullptr) {
    throw Error(ErrorKind::kUsage, cat(shown, ": is for recipes and --config FILE.json only"),
                cat("write {\"", name, "\": ...} into a file and give it by --config"));
  }
  const std::string answer = foreign_answer(name);
  if (!answer.empty()) throw Error(ErrorKind::kUsage, cat("unknown option ", shown, ": ", answer));
  const std::string nearest = nearest_match(name, option_names());
  throw Error(
      ErrorKind::kUsage, cat("unknown option ", shown),
      nearest.empty() ? cat("run ", program_, " --help") : cat("did you mean --", nearest, "?"));
}

// Returns the answer to another tool's option, or to a value of it, "format=xml"; "" for a name
// that no row has.
std::string Cli::foreign_answer(const std::string& name) const {
  const std::string wanted = foreign_name(name);
  for (const Option& option : options_) {
    if (!has_word(option.rules.foreign, wanted)) continue;
    const std::string& remark = option.rules.remark;
    const bool is_apart = !remark.empty() && remark.find_first_of(",;") != 0;
    return cat("here it is --", option.name, is_apart ? " " : "", remark);
  }
  for (const auto& [names, text] : answers_) {
    if (has_word(names, wanted)) return text.starts_with("--") ? cat("here it is ", text) : text;
  }
  return "";
}

// Returns "its parts are momentum=M", or "" for an option without parts.
std::string Cli::parts_of(const Option& option) const {
  std::string text;
  for (const Option& part : options_) {
    if (part.rules.part_of != option.name) continue;
    text += cat(text.empty() ? "its parts are " : ", ", part.rules.key_of_part(part.name), "=",
                part.value_name);
  }
  return text;
}

// Sets the parts that stand in the option's values, "overlap=0.3", but for those of a file that the
// command line has; returns the values without them.
std::vector<std::string> Cli::take_parts(const Option& option, std::vector<std::string> values,
                                         Origin origin) {
  for (const Option& part : options_) {
    if (part.rules.part_of != option.name) continue;
    const std::string key = part.rules.key_of_part(part.name) + "=";
    const auto place_in = [&key](const std::string& value) {
      const std::size_t at = value.find("," + key);
      return value.starts_with(key) ? 0 : at == std::string::npos ? at : at + 1;
    };
    for (std::string& value : values) {
      const std::size_t at = place_in(value);
      if (at == std::string::npos) continue;
      const std::size_t end = std::min(value.find(',', at), value.size());
      const std::string text = value.substr(at + key.size(), end - at - key.size());
      value.erase(at == 0 ? 0 : at - 1, end - at + 1);
      const bool is_twice = place_in(value) != std::string::npos;
      if (is_twice || (is_given(part) && origin == Origin::kCommandLine)) {
        throw Error(ErrorKind::kUsage,
                    cat("--", shown_name(part.name, part.rules), " is given twice"));
      }
      if (!is_given(part)) set(part.name, {text}, origin);
    }
  }
  std::erase(values, "");
  return values;
}

void Cli::set(const std::string& name, const std::vector<std::string>& given, Origin origin) {
  Option* const option = find(name);
  if (option == nullptr) fail_unknown(name);
  const bool is_empty = std::find(given.begin(), given.end(), "") != given.end();
  const std::vector<std::string> values = is_empty ? given : take_parts(*option, given, origin);
  if (values.empty() && !given.empty()) return;  // parts alone
  for (const std::string& text : values) {
    if (text.empty()) {
      fail_value(shown_name(name, option->rules), text,
                 option->is_flag ? "true or false" : option->value_name);
    }
    // No shell looks into a config file, into quotes or behind --option=.
    if (!is_url(text) && name_matches(text, "~.*|(.*/)?[$][A-Za-z_].*|.*[$][{].*")) {
      throw Error(ErrorKind::kUsage,
                  cat("--", name, ": no shell has expanded ", text.starts_with('~') ? "~" : "$",
                      " (got ", text, ", want a path as it is)"),
                  cat("write the path in full; what is really called so is ./", text));
    }
    if (is_url(text) && url_names_.count(name) == 0) {
      throw Error(
          ErrorKind::kUsage,
          cat("--", name, ": cannot be a URL (got ", text, ", want a path of this machine)"),
          "give a local path, or a mounted one");
    }
  }
  if (option->assign_values) {
    // The first value after each mention of the option is taken whatever it is.
    for (const std::string& text : values) {
      if (!text.starts_with("--")) continue;
      throw Error(ErrorKind::kUsage, cat("--", name, ": has no value (got ", text, ", want ",
                                         option->value_name, ")"));
    }
    option->assign_values(values);
  } else {
    // A value that means something elsewhere (--device 0,1) is answered as such.
    try {
      option->assign(values.at(0));
    } catch (const Error& error) {
      std::string answer = foreign_answer(cat(name, "=", values.at(0)));
      if (answer.empty()) answer = foreign_answer(name);
      if (answer.empty() && values.at(0).find('=') != std::string::npos) {
        answer = parts_of(*option);
      }
      if (!error.hint().empty() || answer.empty()) throw;
      throw Error(error.kind(), error.what(), answer);
    }
  }
  option->origin = origin;
}

void Cli::read_config(const std::string& path) {
  // Not settings of the work: a job with them in its file would do nothing and look done.
  static const std::set<std::string> kCommandLineOnly = {"check-args", "config", "help", "version"};
  const JsonFile file = JsonFile::read(path);
  const JsonView root = file.root();
  if (!root.raw().IsObject()) root.fail("want an object of option names and values");
  std::set<std::string> seen;
  for (const auto& [name, given] : members_of(root, path)) {
    const Option* const option = find(name);
    if (option == nullptr) fail_unknown(name);
    if (kCommandLineOnly.count(name) != 0) {
      throw Error(ErrorKind::kUsage, cat(path, ": ", name, ": is for the command line only"),
                  "remove it from the file");
    }
    if (!seen.insert(name).second) {
      throw Error(ErrorKind::kUsage, cat(path, ": ", name, " is given twice"));
    }
    if (option->origin == Origin::kCommandLine || !given) continue;
    std::vector<std::string> values = *given;
    for (std::string& value : values) value = keep_secrets(value);
    if (!option->assign_values) values = {show_value(values)};
    set(name, values, Origin::kConfig);
  }
}

// The options that every program has; none of them is a setting of the work.
void Cli::declare_common() {
  group("Every program");
  const std::size_t first = options_.size();
  flag("help", help_, "print this page and exit; --help=json: the options for programs",
       {.foreign = "h"});
  flag("version", version_, "print versions and exit");
  flag("check-args", check_args_,
       checked_report_ ? "validate the options, print what the data decide and, by steps on a few "
                         "small grey images, the memory that a rank needs; write nothing, exit"
                       : "parse and validate the options, touch nothing, exit",
       {.foreign = "dry-run"});
  option("config", config_, "FILE.json", "read options from a JSON object; the command line wins",
         {.foreign = "cfg config-file cfg-options opts args c", .remark = "FILE.json"});
  choice("log-level", log_level_,
         {{"debug", LogLevel::kDebug},
          {"info", LogLevel::kInfo},
          {"warning", LogLevel::kWarning},
          {"error", LogLevel::kError}},
         "least severe line to log", {.foreign = "verbose v debug quiet q"});
  for (std::size_t i = first; i < options_.size(); ++i) options_[i].is_setting = false;
}

std::string Cli::stray_word(const std::vector<std::string>& words) const {
  bool takes_one = false, takes_all = false;  // the option before
  for (const std::string& word : words) {
    if (word.starts_with("--")) {
      const Option* const option = find(word.substr(2, word.find('=') - 2));
      takes_all = option != nullptr && option->assign_values != nullptr;
      takes_one = option != nullptr && !option->is_flag && word.find('=') == std::string::npos;
      continue;
    }
    if (!takes_one && !takes_all) return word;
    takes_one = false;
  }
  return words.empty() ? "" : words.back();
}

void Cli::read_command_line(int argc, const char* const* argv) {
  po::options_description description;
  for (const auto& item : options_) {
    if (item.rules.file_only || !item.rules.part_of.empty()) continue;
    if (item.is_flag) {
      description.add_options()(item.name.c_str(), "");
    } else if (item.assign_values) {
      using Values = std::vector<std::string>;
      description.add_options()(item.name.c_str(), po::value<Values>()->multitoken(), "");
    } else {
      description.add_options()(item.name.c_str(), po::value<std::string>(), "");
    }
  }
  // URLs lose their secrets before anything looks at them.
  std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  for (std::string& word : words) {
    const std::size_t value = word.starts_with("--") ? word.find('=') + 1 : 0;  // 0, too, without
    word.replace(value, word.size(), keep_secrets(word.substr(value)));
  }
  help_json_ = std::erase(words, "--help=json") > 0;
  // Boost's errors become ours, with the option that was probably meant.
  try {
    const auto style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    const auto parsed = po::command_line_parser(words)
                            .options(description)
                            .style(style)
                            .positional(po::positional_options_description())
                            .run();
    using Values = std::vector<std::string>;
    std::map<std::string, Values> lists;  // of options that may come again
    for (const auto& item : parsed.options) {
      const Option& option = *find(item.string_key);
      if (option.repeats) {
        Values& values = lists[option.name];
        values.insert(values.end(), item.value.begin(), item.value.end());
        continue;
      }
      if (is_given(option)) {
        throw Error(
            ErrorKind::kUsage, cat("--", option.name, " is given twice"),
            option.assign_values ? cat("give all its values after one --", option.name) : "");
      }
      set(option.name, item.value.empty() ? Values{"true"} : item.value, Origin::kCommandLine);
    }
    for (const auto& [name, values] : lists) set(name, values, Origin::kCommandLine);
  } catch (const po::unknown_option& error) {
    const std::string name = without_dashes(error.get_option_name());
    fail_unknown(name.substr(0, name.find('=')));
  } catch (const po::too_many_positional_options_error&) {
    const std::string word = stray_word(words);
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    throw Error(ErrorKind::kUsage, cat("\"", word, "\": an argument without an option name"),
                find(name) != nullptr ? cat("--", name, value.empty() ? "" : " ", value)
                                      : cat("run ", program_, " --help"));
  } catch (const po::error_with_option_name& error) {
    const std::string answer = foreign_answer(without_dashes(error.get_option_name()));
    throw Error(ErrorKind::kUsage, error.what(),
                answer.empty() ? cat("run ", program_, " --help") : answer);
  } catch (const po::error& error) {
    throw Error(ErrorKind::kUsage, error.what(), cat("run ", program_, " --help"));
  }
}

CliOutcome Cli::parse(int argc, const char* const* argv) {
  declare_common();
  read_command_line(argc, argv);
  if (help_ || help_json_) {
    std::cout << (help_ ? help_text() : help_json()) << std::flush;
    return CliOutcome::kDone;
  }
  if (version_) {
    std::cout << version_text(program_) << std::flush;
    return CliOutcome::kDone;
  }
  if (argc <= 1) {
    throw Error(ErrorKind::kUsage, "no options given", cat("run ", program_, " --help"));
  }
  if (!config_.empty()) read_config(config_);
  apply_presets();
  set_log_level(log_level_);
  check();
  if (check_args_ && checked_report_) std::cout << checked_report_() << std::flush;
  return check_args_ ? CliOutcome::kDone : CliOutcome::kRun;
}

std::vector<EffectiveOption> Cli::effective() const {
  std::vector<EffectiveOption> list;
  for (const auto& option : options_) {
    if (option.is_setting && !option.rules.is_transient)
      list.push_back({option.name, option.json(), option.rules.may_change});
  }
  return list;
}

std::vector<std::string> Cli::option_names() const {
  std::vector<std::string> names;
  for (const auto& option : options_) {
    if (!option.rules.file_only && option.rules.part_of.empty()) names.push_back(option.name);
  }
  return names;
}

}  // namespace retina
