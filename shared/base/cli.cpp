#include "shared/base/cli.h"

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
#include "shared/base/foreign_options.h"
#include "shared/base/json.h"
#include "shared/base/log.h"
#include "shared/base/url.h"
#include "shared/base/version.h"

namespace retina {
namespace {

namespace po = boost::program_options;

constexpr const char* kOfFile = "config";  // the source of a value

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

std::string without_dashes(std::string name) {
  return name.erase(0, name.find_first_not_of('-'));
}

// Returns "overlap" of the part "tile-overlap" of "tile".
std::string key_of_part(const std::string& name, const OptionRules& rules) {
  const std::string prefix = rules.part_of + "-";
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

// Returns a message's name of an option: "tile overlap" of that part.
std::string shown_name(const std::string& name, const OptionRules& rules) {
  return rules.part_of.empty() ? name : cat(rules.part_of, " ", key_of_part(name, rules));
}

std::string bytes_text(std::uint64_t value) {
  return value % 1048576 == 0 ? cat(value / 1048576, "MiB") : cat(value);
}

}  // namespace

Cli::Cli(std::string program, std::string usage, std::string summary)
    : program_(std::move(program)), usage_(std::move(usage)), summary_(std::move(summary)) {}

void Cli::group(std::string title) {
  group_ = std::move(title);
}

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

void Cli::add_choice(const std::string& name, const std::string& list, const std::string& help,
                     Words words, const OptionRules& rules) {
  add({.name = name,
       .value_name = list,
       .help = help,
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

void Cli::preset(const std::string& name, std::string& target,
                 std::map<std::string, Settings> presets, const std::string& help,
                 const OptionRules& rules) {
  std::vector<std::string> values = {"none"};
  if (target != values.front()) values.insert(values.begin(), target);
  for (const auto& [value, settings] : presets) values.push_back(value);
  choice(name, target, plain_choices(values), help, rules);
  presets_.push_back([presets = std::move(presets), &target]() -> const Settings* {
    const auto found = presets.find(target);
    return found == presets.end() ? nullptr : &found->second;
  });
}

void Cli::imply(std::function<const Settings*()> settings) {
  presets_.push_back(std::move(settings));
}

void Cli::apply_presets() {
  for (const auto& chosen : presets_) {
    const Settings* settings = chosen();
    if (settings == nullptr) continue;
    for (const auto& [name, text] : *settings) {
      const Option* option = find(name);
      RETINA_CHECK(option != nullptr, "a preset for the unknown option ", name);
      if (!given(name)) option->assign(text);
    }
  }
}

void Cli::assign(const Settings& settings) {
  for (const auto& [name, text] : settings) {
    const Option* option = find(name);
    RETINA_CHECK(option != nullptr, "no option ", name, " to assign");
    option->assign(text);
  }
  for (const auto& check_options : checks_) check_options(*this);
}

template <class T>
void Cli::add_bytes(const std::string& name, T& target, const std::string& help,
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

void Cli::bytes(const std::string& name, std::uint64_t& target, const std::string& help,
                const OptionRules& rules) {
  add_bytes(name, target, help, rules);
}

void Cli::bytes(const std::string& name, std::optional<std::uint64_t>& target,
                const std::string& help, const OptionRules& rules) {
  add_bytes(name, target, help, rules);
}

void Cli::pair(const std::string& name, std::array<std::string, 2>& target,
               const std::string& value_names, const std::string& help, const OptionRules& rules) {
  add({.name = name,
       .value_name = value_names,
       .help = help,
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
       .show = [&target] { return show_value(target); },
       .json = [&target] { return target.empty() ? "null" : json_value(target); },
       .assign_values = [&target](const std::vector<std::string>& values) { target = values; },
       .repeats = true,
       .rules = rules});
}

void Cli::validate(std::function<void(const Cli&)> check) {
  checks_.push_back(std::move(check));
}

const Cli::Option* Cli::find(const std::string& name) const {
  for (const auto& option : options_) {
    if (option.name == name) return &option;
  }
  return nullptr;
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
                    key_of_part(name, known->rules), "=VALUE"));
  }
  if (known != nullptr) {
    throw Error(ErrorKind::kUsage, cat(shown, ": is for recipes and --config FILE.json only"),
                cat("write {\"", name, "\": ...} into a file and give it by --config"));
  }
  const std::string answer = foreign_option_answer(program_, name);
  if (!answer.empty()) throw Error(ErrorKind::kUsage, cat("unknown option ", shown, ": ", answer));
  const std::string nearest = nearest_match(name, option_names());
  throw Error(
      ErrorKind::kUsage, cat("unknown option ", shown),
      nearest.empty() ? cat("run ", program_, " --help") : cat("did you mean --", nearest, "?"));
}

// Sets the parts that stand in the option's values, "overlap=0.3", but for those of a file that the
// command line has; returns the values without them.
std::vector<std::string> Cli::take_parts(const Option& option, std::vector<std::string> values,
                                         const std::string& source) {
  for (const Option& part : options_) {
    if (part.rules.part_of != option.name) continue;
    const std::string key = key_of_part(part.name, part.rules) + "=";
    for (std::string& value : values) {
      const std::size_t at = value.starts_with(key) ? 0 : value.find("," + key);
      if (at == std::string::npos) continue;
      const std::size_t begin = at + (at == 0 ? 0 : 1) + key.size();
      const std::size_t end = std::min(value.find(',', begin), value.size());
      if (!given(part.name)) {
        set(part.name, {value.substr(begin, end - begin)}, source);
      } else if (source != kOfFile) {
        throw Error(ErrorKind::kUsage,
                    cat("--", shown_name(part.name, part.rules), " is given twice"));
      }
      value.erase(at, end - at + (at == 0 && end < value.size() ? 1 : 0));
    }
  }
  std::erase(values, "");
  return values;
}

void Cli::set(const std::string& name, const std::vector<std::string>& given,
              const std::string& source) {
  const Option* option = find(name);
  if (option == nullptr) fail_unknown(name);
  const bool is_empty = std::find(given.begin(), given.end(), "") != given.end();
  const std::vector<std::string> values = is_empty ? given : take_parts(*option, given, source);
  if (values.empty() && !given.empty()) return;  // parts alone
  for (const std::string& text : values) {
    if (text.empty())
      fail_value(name, text, option->is_flag ? "true or false" : option->value_name);
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
      const std::string answer = foreign_value_answer(program_, name, values.at(0));
      if (!error.hint().empty() || answer.empty()) throw;
      throw Error(error.kind(), error.what(), answer);
    }
  }
  given_[name] = source;
}

void Cli::read_config(const std::string& path) {
  // Not settings of the work: a job with them in its file would do nothing and look done.
  static const std::set<std::string> kCommandLineOnly = {"check-args", "config", "help", "version"};
  const JsonFile file = JsonFile::read(path);
  const JsonView root = file.root();
  if (!root.raw().IsObject()) root.fail("want an object of option names and values");
  std::set<std::string> seen;
  for (const auto& member : root.raw().GetObject()) {
    const std::string name(member.name.GetString(), member.name.GetStringLength());
    const JsonView item(member.value, cat(path, ": ", name));
    if (find(name) == nullptr) fail_unknown(name);
    if (kCommandLineOnly.count(name) != 0) {
      throw Error(ErrorKind::kUsage, cat(path, ": ", name, ": is for the command line only"),
                  "remove it from the file");
    }
    if (!seen.insert(name).second) {
      throw Error(ErrorKind::kUsage, cat(path, ": ", name, " is given twice"));
    }
    if (given_.count(name) != 0 || item.raw().IsNull()) continue;  // the command line wins
    std::vector<std::string> values;
    if (item.raw().IsArray()) {
      for (std::size_t i = 0; i < item.size(); ++i) values.push_back(text_of(item.at(i)));
    } else {
      values.push_back(text_of(item));
    }
    for (std::string& value : values) value = keep_secrets(value);
    if (!find(name)->assign_values) {
      values = {show_value(values)};
    }
    set(name, values, kOfFile);
  }
}

// The options that every program has; none of them is a setting of the work.
void Cli::declare_common() {
  group("Every program");
  const std::size_t first = options_.size();
  flag("help", help_, "print this page and exit");
  flag("version", version_, "print versions and exit");
  flag("check-args", check_args_,
       checked_report_
           ? "validate the options, print what the data decide and, by steps on a few small grey "
             "images, the memory that a rank needs; write nothing, exit"
           : "parse and validate the options, touch nothing, exit");
  option("config", config_, "FILE.json", "read options from a JSON object; the command line wins");
  choice("log-level", log_level_,
         {{"debug", LogLevel::kDebug},
          {"info", LogLevel::kInfo},
          {"warning", LogLevel::kWarning},
          {"error", LogLevel::kError}},
         "least severe line to log");
  for (std::size_t i = first; i < options_.size(); ++i) options_[i].is_setting = false;
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
      if (given_.count(option.name) != 0) {
        throw Error(
            ErrorKind::kUsage, cat("--", option.name, " is given twice"),
            option.assign_values ? cat("give all its values after one --", option.name) : "");
      }
      set(option.name, item.value.empty() ? Values{"true"} : item.value, "command line");
    }
    for (const auto& [name, values] : lists) set(name, values, "command line");
  } catch (const po::unknown_option& error) {
    fail_unknown(without_dashes(error.get_option_name()));
  } catch (const po::too_many_positional_options_error&) {
    throw Error(ErrorKind::kUsage, "there is an argument without an option name",
                cat("run ", program_, " --help"));
  } catch (const po::error_with_option_name& error) {
    const std::string answer =
        foreign_option_answer(program_, without_dashes(error.get_option_name()));
    throw Error(ErrorKind::kUsage, error.what(),
                answer.empty() ? cat("run ", program_, " --help") : answer);
  } catch (const po::error& error) {
    throw Error(ErrorKind::kUsage, error.what(), cat("run ", program_, " --help"));
  }
}

CliOutcome Cli::parse(int argc, const char* const* argv) {
  declare_common();
  read_command_line(argc, argv);
  if (help_) {
    std::cout << help_text() << std::flush;
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
  for (const auto& check_options : checks_) check_options(*this);
  if (check_args_ && checked_report_) std::cout << checked_report_() << std::flush;
  return check_args_ ? CliOutcome::kDone : CliOutcome::kRun;
}

std::vector<EffectiveOption> Cli::effective() const {
  std::vector<EffectiveOption> list;
  for (const auto& option : options_) {
    if (option.is_setting) list.push_back({option.name, option.json(), option.rules.may_change});
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

std::string Cli::help_text() const {
  constexpr std::size_t kColumn = 34, kWidth = 100;
  std::string text = cat(program_, ": ", summary_, "\n\nusage:\n");
  std::istringstream usage(usage_);
  for (std::string line; std::getline(usage, line);) text += cat("  ", line, "\n");
  std::string group;
  for (std::size_t i = 0; i < options_.size(); ++i) {
    const Option& option = options_[i];
    if (option.rules.file_only) continue;
    if (option.group != group) text += cat("\n", group = option.group, ":\n");
    std::string line = cat("  --", option.name, option.is_flag ? "" : " " + option.value_name);
    if (!option.rules.part_of.empty()) {
      line = cat("    ,", key_of_part(option.name, option.rules), "=", option.value_name);
    }
    std::string help = option.help;
    if (!option_texts_[i].empty()) help += cat(" [", option_texts_[i], "]");
    while (line.size() > kWidth) {  // a long choice
      const std::size_t end = line.rfind('|', kWidth - 1);
      if (end == std::string::npos) break;
      text += line.substr(0, end + 1) + "\n";
      line = cat("      ", line.substr(end + 1));
    }
    if (line.size() + 2 > kColumn) {
      text += line + "\n";
      line.clear();
    }
    line.resize(kColumn, ' ');
    std::istringstream words(help);
    bool first = true;
    for (std::string word; words >> word; first = false) {
      if (!first && line.size() + 1 + word.size() > kWidth) {
        text += line + "\n";
        line = std::string(kColumn, ' ') + word;
      } else {
        line += (first ? "" : " ") + word;
      }
    }
    text += line + "\n";
  }
  return text;
}

}  // namespace retina
