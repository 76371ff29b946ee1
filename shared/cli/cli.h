// Command lines: one table of options that parses, validates, prints --help and lists the effective
// values. Options structs are filled in place; nothing below main sees the parser.
//
// Every program gets --help, --version, --config FILE.json (the same keys as the long options, each
// once; the command line wins), --check-args and --log-level. No value may be empty: to leave an
// option unset, omit it, or give null in the file. --help=json prints the table for programs.
//
// Rows are found by their targets: `cli.given(options.lr)`.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "shared/base/cat.h"
#include "shared/base/choices.h"
#include "shared/base/log.h"

namespace retina {

// What `parse` decided: go on, or end now with exit code 0.
enum class CliOutcome { kRun, kDone };

// An option's value as used, for config.json. `json` is a JSON literal.
struct EffectiveOption {
  std::string name;
  std::string json;
  bool may_change = false;  // OptionRules
};

// Options as a command line would have them, by name; those that are unset are left out.
using OptionTexts = std::map<std::string, std::string>;

// Sets options that nobody has given; what recipes do.
class Setter {
 public:
  // `may` says whether the option of this target may be set.
  explicit Setter(std::function<bool(const void*)> may) : may_(std::move(may)) {}

  template <class T, class Value>
  void operator()(T& target, Value&& value) const {
    if (may_(&target)) target = std::forward<Value>(value);
  }

 private:
  std::function<bool(const void*)> may_;
};

// The type of the values of a choice, whose target may be an optional of them.
template <class T>
struct ChosenType {
  using Type = T;
};
template <class T>
struct ChosenType<std::optional<T>> {
  using Type = T;
};

// An option's row beside its name, target and help.
struct OptionRules {
  // Bounds of its number, or of each of several; `above` and `below` are not in the range.
  std::optional<double> least{}, above{}, most{}, below{};
  // The program's modes (bits, Cli::modes) that it means something in.
  unsigned modes = ~0U;
  // It means something only beside this option, "tile", or this value of it, "assigner=iou".
  std::string needs{};
  // retina-train: may differ between a run and its continuation.
  bool may_change = false;
  // Not among the settings of a run, which has what it came to.
  bool is_transient = false;
  // Set by presets and --config alone: a value that published recipes differ in and nobody varies.
  bool file_only = false;
  // Given behind the value of this option, as "tile": --tile 640,overlap=0.3 sets "tile-overlap".
  std::string part_of{};
  // Other tools' names of it, separated by spaces, without dashes, '-' for '_'; "format=xml" is one
  // of its values. `remark` follows its own name in the answer to them.
  std::string foreign{}, remark{};

  // Returns "overlap" of the part "tile-overlap" of "tile", which is `name`.
  std::string key_of_part(const std::string& name) const;
};

class Cli {
 public:
  // `usage` are the lines after "usage:" in --help; `summary` says what the program does.
  Cli(std::string program, std::string usage, std::string summary);

  // Options declared after this call print under `title` in --help.
  void group(std::string title);

  // Declares `--name VALUE`. The target's current value is the default shown by --help; it is
  // overwritten when the option is given. Types: int, int64_t, uint64_t, double, std::string,
  // std::vector<double|int64_t|std::string> (comma-separated), std::optional of these.
  template <class T>
  void option(const std::string& name, T& target, const std::string& value_name,
              const std::string& help, const OptionRules& rules = {}) {
    add_option(name, &target, value_name, help, rules);
  }

  // Names the modes of OptionRules::modes, from the lowest bit, as --help=json has them.
  void modes(std::vector<std::string> names) { mode_names_ = std::move(names); }

  // The same for an optional that "auto" leaves to the program, unset; --help shows that where it
  // is the default.
  template <class T>
  void option_or_auto(const std::string& name, std::optional<T>& target,
                      const std::string& value_name, const std::string& help,
                      const OptionRules& rules = {}) {
    add_option(name, &target, cat(value_name, "|", kAuto), help, rules);
    let_be_auto([&target] { target.reset(); });
  }

  // The same where "auto" has a value of its own.
  template <class T>
  void option_or_auto(const std::string& name, std::optional<T>& target,
                      const std::string& value_name, const std::string& help, const T& automatic,
                      const OptionRules& rules) {
    add_option(name, &target, cat(value_name, "|", kAuto), help, rules);
    const std::string default_text = option_texts_.back();
    let_be_auto([&target, automatic] { target = automatic; });
    option_texts_.back() = default_text;
  }

  // Declares a switch. "true"/"false" in a config file.
  void flag(const std::string& name, bool& target, const std::string& help,
            const OptionRules& rules = {});

  // Declares an option with a closed set of values, e.g. {{"sgd", Kind::kSgd}, {"adam",
  // Kind::kAdam}}. An unset optional shows no default.
  template <class Target>
  void choice(const std::string& name, Target& target,
              const Choices<typename ChosenType<Target>::Type>& choices, const std::string& help,
              const OptionRules& rules = {}) {
    add_choice(name, &target, words_of(choices), help,
               {.take =
                    [&target, choices](const std::string& word) {
                      const auto value = value_of(choices, word);
                      if (value) target = *value;
                      return value.has_value();
                    },
                .word = [&target, choices] { return word_of(choices, target); }},
               rules);
  }
  // The choice between "on" and "off".
  void on_off(const std::string& name, bool& target, const std::string& help,
              const OptionRules& rules = {}) {
    choice(name, target, {{"on", true}, {"off", false}}, help, rules);
  }

  // Declares a choice whose values set other options, as far as the command line and --config do
  // not. "none" and the target's current value are values too, which set nothing.
  using Presets = std::vector<std::pair<std::string, std::function<void(const Setter&)>>>;
  void preset(const std::string& name, std::string& target, Presets presets,
              const std::string& help, const OptionRules& rules = {});

  // Declares other settings by what is known after parsing and presets.
  void imply(std::function<void(const Setter&)> settings) { implied_ = std::move(settings); }

  // Answers other tools' options, separated by spaces, that are none of ours.
  void foreign(std::string names, std::string answer) {
    answers_.push_back({std::move(names), std::move(answer)});
  }

  // Declares `--name A B`: exactly two values, in a config file an array of two.
  void pair(const std::string& name, std::array<std::string, 2>& target,
            const std::string& value_names, const std::string& help, const OptionRules& rules = {});

  // Declares `--name A [B ...]`: one value or more, those of all its mentions; in a config file a
  // text or an array.
  void list(const std::string& name, std::vector<std::string>& target,
            const std::string& value_names, const std::string& help, const OptionRules& rules = {});

  // Declares a size in bytes: "256MiB", "1GiB", "4096".
  void bytes(const std::string& name, std::uint64_t& target, const std::string& help,
             const OptionRules& rules = {});
  // An unset one shows no default.
  void bytes(const std::string& name, std::optional<std::uint64_t>& target, const std::string& help,
             const OptionRules& rules = {});

  // The options whose values may be URLs; elsewhere a URL is refused, as a path of this machine it
  // would be a folder "https:".
  void urls(std::set<std::string> names) { url_names_ = std::move(names); }

  // Runs after parsing, before --check-args ends the program, and in check(); throws to refuse.
  void validate(std::function<void(const Cli&)> check);

  // Throws Error{kUsage} (unknown option with ours or the nearest match, bad value, no option),
  // Error{kNoInput} / Error{kData} for --config.
  CliOutcome parse(int argc, const char* const* argv);

  // Sets an option to what the data decide, unless it is given.
  template <class T, class Value>
  void decide(T& target, Value&& value) {
    Option& row = row_of(&target);
    if (is_given(row)) return;
    target = std::forward<Value>(value);
    row.origin = Origin::kData;
  }
  // Does the same for a recipe; the targets `kept` stay as they are.
  Setter data_setter(std::set<const void*> kept);
  // Does the same with the value that a run was begun with; returns false where it had none.
  template <class T>
  bool decide_as_before(T& target, const OptionTexts& before) {
    return assign_stored(row_of(&target), before);
  }
  // Returns the name that messages have: "--lr".
  template <class T>
  std::string name_of(const T& target) const {
    return "--" + row_of(&target).name;
  }
  // Returns the option's value among stored ones.
  template <class T>
  std::optional<std::string> stored(const T& target, const OptionTexts& before) const {
    const auto found = before.find(row_of(&target).name);
    return found == before.end() ? std::nullopt : std::optional(found->second);
  }
  // Lets decide() set an option although it is given, as "auto".
  template <class T>
  void reopen(const T& target) {
    row_of(&target).origin = Origin::kDefault;
  }
  // The options that decide() has set, as a JSON object, for the other ranks.
  std::string decisions() const;
  void take_decisions(const std::string& json);
  // Runs the checks of validate().
  void check() const;

  // Throws Error{kUsage} where options that mean nothing in these modes have another value than by
  // default, or that need another one; `mode` is how the user chose it, "--task classify".
  void check_mode(unsigned modes, const std::string& mode) const;

  // What --check-args prints when the options are right; with nothing to say, nothing.
  void report_checked(std::function<std::string()> report) { checked_report_ = std::move(report); }

  // Returns whether an option was on the command line or in --config.
  template <class T>
  bool given(const T& target) const {
    return is_given(row_of(&target));
  }
  // Returns whether it was, or a preset has set it.
  template <class T>
  bool is_set(const T& target) const {
    return given(target) || row_of(&target).origin == Origin::kPreset;
  }

  // All options that are settings of the run (not --help, --config, ...), in declaration order.
  std::vector<EffectiveOption> effective() const;

  std::string help_text() const;
  // The table as JSON: an object with the program's name and summary and an array of its options.
  std::string help_json() const;
  std::vector<std::string> option_names() const;

 private:
  enum class Origin { kDefault, kData, kPreset, kConfig, kCommandLine };  // of a value
  struct Option {
    std::string group{}, name{}, value_name{}, help{};
    const void* target = nullptr;
    bool is_flag = false;
    bool is_setting = true;
    std::function<void(const std::string&)> assign{};  // throws Error{kUsage}
    std::function<std::string()> show{};               // the value as text, "" when unset
    std::function<std::string()> json{};               // the value as a JSON literal
    // Of an option of several values, instead of `assign`.
    std::function<void(const std::vector<std::string>&)> assign_values{};
    bool repeats = false;  // may be given again, with more values
    OptionRules rules{};
    std::string initial{};  // its value as text when it was declared
    Origin origin = Origin::kDefault;
  };
  struct Answer {
    std::string names{}, text{};
  };
  using Target =
      std::variant<int*, std::int64_t*, std::uint64_t*, double*, std::string*, std::optional<int>*,
                   std::optional<std::int64_t>*, std::optional<double>*,
                   std::optional<std::string>*, std::vector<double>*,
                   std::optional<std::vector<double>>*, std::vector<std::int64_t>*,
                   std::optional<std::vector<std::int64_t>>*, std::vector<std::string>*>;
  // A choice's target in words: `take` is false for an unknown one, `word` empty when it is unset.
  struct Words {
    std::function<bool(const std::string&)> take{};
    std::function<std::string()> word{};
  };
  static constexpr const char* kAuto = "auto";
  static std::string with_auto(std::string message);
  void let_be_auto(const std::function<void()>& reset);
  void add_option(const std::string& name, Target target, const std::string& value_name,
                  const std::string& help, const OptionRules& rules);
  template <class T>
  void add_bytes(const std::string& name, T& target, const std::string& help,
                 const OptionRules& rules);
  void add_choice(const std::string& name, const void* target, const std::string& list,
                  const std::string& help, Words words, const OptionRules& rules);
  void add(Option option);
  const Option* find(const std::string& name) const;
  Option* find(const std::string& name);
  Option& row_of(const void* target);
  const Option& row_of(const void* target) const;
  static bool is_given(const Option& row) { return row.origin >= Origin::kConfig; }
  bool assign_stored(Option& row, const OptionTexts& before);
  Setter setter(Origin origin);
  std::string foreign_answer(const std::string& name) const;
  std::vector<std::string> take_parts(const Option& option, std::vector<std::string> values,
                                      Origin origin);
  bool has_what_it_needs(const Option& option) const;
  [[noreturn]] void fail_unknown(const std::string& name) const;
  void declare_common();
  void read_command_line(int argc, const char* const* argv);
  void read_config(const std::string& path);
  void apply_presets();
  void set(const std::string& name, const std::vector<std::string>& values, Origin origin);

  std::string program_, usage_, summary_, group_ = "Options";
  std::vector<Option> options_;
  std::vector<std::string> option_texts_;  // defaults as shown by --help
  std::set<std::string> url_names_;
  std::vector<std::string> mode_names_;
  std::vector<Answer> answers_;
  std::vector<std::function<void(const Setter&)>> presets_;  // of the choices' values
  std::function<void(const Setter&)> implied_;
  std::vector<std::function<void(const Cli&)>> checks_;
  std::function<std::string()> checked_report_;
  bool help_ = false, help_json_ = false, version_ = false, check_args_ = false;
  std::string config_;
  LogLevel log_level_ = LogLevel::kInfo;
};

}  // namespace retina
