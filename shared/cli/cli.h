// Command lines: one table of options that parses, validates, prints --help and lists the effective
// values. Options structs are filled in place: code that needs values takes those, code that
// decides defaults takes the Cli.
//
// Every program gets --help, --version, --config FILE.json (the same keys as the long options, each
// once; the command line wins), --check-args and --log-level. No value may be empty: to leave an
// option unset, omit it, or give null in the file. --help=json prints the table for programs.
//
// Code names an option by its target: `cli.given(options.lr)`.
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

// Outcome of parse(): run the program, or exit with code 0.
enum class CliOutcome { kRun, kDone };

// An option's value as used, for config.json. `json` is a JSON literal.
struct EffectiveOption {
  std::string name;
  std::string json;
  bool may_change = false;  // as OptionRules'
};

// Values of options, as a command line has them, by name; unset ones are left out.
using OptionTexts = std::map<std::string, std::string>;

// Assigns option values, except to options that the user has set; recipes use it.
class Setter {
 public:
  // `may` returns true if the option of this target may be set.
  explicit Setter(std::function<bool(const void*)> may) : may_(std::move(may)) {}

  // Assigns `value`, if the target's option may be set.
  template <class T, class Value>
  void operator()(T& target, Value&& value) const {
    if (may_(&target)) target = std::forward<Value>(value);
  }

 private:
  std::function<bool(const void*)> may_;
};

// Value type of a choice's target: T, for T or std::optional<T>.
template <class T>
struct ChosenType {
  using Type = T;
};
template <class T>
struct ChosenType<std::optional<T>> {
  using Type = T;
};

// Properties of an option besides its name, target and help.
struct OptionRules {
  // Bounds of a number, or of each of several; `above` and `below` are exclusive.
  std::optional<double> least{}, above{}, most{}, below{};
  // Bit mask of the modes (Cli::modes) in which the option has an effect.
  unsigned modes = ~0U;
  // Condition of its effect: this option is set, "tile", or has this value, "assigner=iou".
  std::string needs{};
  // True if it may differ between a run of retina-train and its continuation.
  bool may_change = false;
  // True if it is left out of config.json: another setting has its result.
  bool is_transient = false;
  // True if only presets and --config set it: published recipes differ in it.
  bool file_only = false;
  // Option that it is a part of: "tile" lets --tile 640,overlap=0.3 set "tile-overlap".
  std::string part_of{};
  // Its names in other tools, in lower case, separated by spaces, without dashes, '-' for '_';
  // "format=xml" is a value of one. `remark` follows our name in the hint.
  std::string foreign{}, remark{};

  // Returns the part's own key: "overlap" for `name` "tile-overlap" of "tile".
  std::string key_of_part(const std::string& name) const;
};

class Cli {
 public:
  // `usage` are the lines after "usage:" in --help; `summary` says what the program does.
  Cli(std::string program, std::string usage, std::string summary);

  // Names the modes of OptionRules::modes, from the lowest bit, for --help=json.
  void modes(std::vector<std::string> names) { mode_names_ = std::move(names); }

  // Prints the options that are declared after this call under `title` in --help.
  void group(std::string title) { group_ = std::move(title); }

  // Declares `--name VALUE`. The target's current value is the default shown by --help; it is
  // overwritten when the option is given. Types: int, int64_t, uint64_t, double, std::string,
  // std::vector<double|int64_t|std::string> (comma-separated), std::optional of int, int64_t,
  // double, std::string and the vectors of numbers. The target must outlive the Cli.
  template <class T>
  void option(const std::string& name, T& target, const std::string& value_name,
              const std::string& help, const OptionRules& rules = {}) {
    add_option(name, &target, value_name, help, rules);
  }

  // Declares an optional option that also takes "auto", which leaves it unset; --help shows that
  // where it is the default.
  template <class T>
  void option_or_auto(const std::string& name, std::optional<T>& target,
                      const std::string& value_name, const std::string& help,
                      const OptionRules& rules = {}) {
    add_option(name, &target, cat(value_name, "|", kAuto), help, rules);
    let_be_auto([&target] { target.reset(); });
  }

  // Declares an optional option whose "auto" sets `automatic`.
  template <class T>
  void option_or_auto(const std::string& name, std::optional<T>& target,
                      const std::string& value_name, const std::string& help, const T& automatic,
                      const OptionRules& rules) {
    add_option(name, &target, cat(value_name, "|", kAuto), help, rules);
    const std::string default_text = option_texts_.back();
    let_be_auto([&target, automatic] { target = automatic; });
    option_texts_.back() = default_text;
  }

  // Declares a switch, true when given; "true" or "false" in a config file.
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
  // Declares a choice between "on" and "off".
  void on_off(const std::string& name, bool& target, const std::string& help,
              const OptionRules& rules = {}) {
    choice(name, target, {{"on", true}, {"off", false}}, help, rules);
  }

  // Declares a choice whose values set other options, unless the command line or --config does.
  // "none" and the target's initial value are accepted and set nothing.
  using Presets = std::vector<std::pair<std::string, std::function<void(const Setter&)>>>;
  void preset(const std::string& name, std::string& target, Presets presets,
              const std::string& help, const OptionRules& rules = {});

  // Registers the function that sets further defaults once parsing and presets are done.
  void imply(std::function<void(const Setter&)> settings) { implied_ = std::move(settings); }

  // Registers other tools' option names, separated by spaces, and the hint that answers them.
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

  // Declares a size in bytes: "256MiB", "1GiB", "4096". The target is a uint64_t, or an optional
  // one, which shows no default.
  template <class T>
  void bytes(const std::string& name, T& target, const std::string& help,
             const OptionRules& rules = {});

  // Names the options whose values may be URLs; others refuse one, which would be read as a folder
  // "https:".
  void urls(std::set<std::string> names) { url_names_ = std::move(names); }

  // Registers a check that throws to refuse; it runs after parsing, before --check-args ends the
  // program, and in check().
  void validate(std::function<void(const Cli&)> check) { checks_.push_back(std::move(check)); }

  // Prints --help, --version and the report of --check-args to stdout. Throws Error{kUsage} (an
  // unknown option, with our name for it or the nearest match; a bad value; no options at all),
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
  // Returns a Setter that decides, for a recipe, as decide() does, but leaves the targets `kept`
  // alone.
  Setter data_setter(std::set<const void*> kept) { return setter(Origin::kData, std::move(kept)); }
  // Sets options to their values in `before`, the run that is continued, unless they are given.
  // Returns false if `before` lacks one.
  template <class... T>
  bool decide_as_before(const OptionTexts& before, T&... targets) {
    return (assign_stored(row_of(&targets), before) & ...);
  }
  // Returns the option's name in messages: "--lr".
  template <class T>
  std::string name_of(const T& target) const {
    return "--" + row_of(&target).name;
  }
  // Returns the option's value among stored ones; unset if absent.
  template <class T>
  std::optional<std::string> stored(const T& target, const OptionTexts& before) const {
    const auto found = before.find(row_of(&target).name);
    return found == before.end() ? std::nullopt : std::optional(found->second);
  }
  // Marks an option as not given, so that decide() may set it: one given as "auto".
  template <class T>
  void reopen(const T& target) {
    row_of(&target).origin = Origin::kDefault;
  }
  // Returns the options that decide() has set as a JSON object, for take_decisions() on the other
  // ranks.
  std::string decisions() const;
  // Sets the options that decisions() of another rank lists.
  void take_decisions(const std::string& json);
  // Runs the checks of validate().
  void check() const;

  // Throws Error{kUsage} if an option's value differs from the declared one but has no effect in
  // `modes` or without the option that it needs; `mode` is the user's choice in words, "--task
  // classify".
  void check_mode(unsigned modes, const std::string& mode) const;

  // Registers a report that --check-args prints after successful checks.
  void report_checked(std::function<std::string()> report) { checked_report_ = std::move(report); }

  // Returns whether an option was on the command line or in --config.
  template <class T>
  bool given(const T& target) const {
    return is_given(row_of(&target));
  }
  // Returns whether an option was given or a preset has set it.
  template <class T>
  bool is_set(const T& target) const {
    return given(target) || row_of(&target).origin == Origin::kPreset;
  }

  // Returns all options that are settings of the run (not --help, --config, ...), as declared.
  std::vector<EffectiveOption> effective() const;

  std::string help_text() const;
  // Returns the table as JSON: an object with the program's name and summary and an array of its
  // options.
  std::string help_json() const;
  std::vector<std::string> option_names() const;

 private:
  enum class Origin { kDefault, kData, kPreset, kConfig, kCommandLine };  // a value's source
  struct Option {
    std::string group{}, name{}, value_name{}, help{};
    const void* target = nullptr;
    bool is_flag = false;
    bool is_setting = true;
    std::function<void(const std::string&)> assign{};  // throws Error{kUsage}
    std::function<std::string()> show{};               // the value as text, "" when unset
    std::function<std::string()> json{};               // the value as a JSON literal
    // Assigns several values, in place of `assign`.
    std::function<void(const std::vector<std::string>&)> assign_values{};
    bool repeats = false;  // it may be given again, with more values
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
  // A choice's target in words: `take` sets it, and returns false for an unknown word; `word`
  // returns its word, "" when it is unset.
  struct Words {
    std::function<bool(const std::string&)> take{};
    std::function<std::string()> word{};
  };
  static constexpr const char* kAuto = "auto";
  static std::string with_auto(std::string message);
  void let_be_auto(const std::function<void()>& reset);
  void add_option(const std::string& name, Target target, const std::string& value_name,
                  const std::string& help, const OptionRules& rules);
  void add_choice(const std::string& name, const void* target, const std::string& list,
                  const std::string& help, Words words, const OptionRules& rules);
  void add(Option option);
  const Option* find(const std::string& name) const;
  Option* find(const std::string& name);
  Option& row_of(const void* target);
  const Option& row_of(const void* target) const;
  static bool is_given(const Option& row) { return row.origin >= Origin::kConfig; }
  bool assign_stored(Option& row, const OptionTexts& before);
  Setter setter(Origin origin, std::set<const void*> kept = {});
  std::string foreign_answer(const std::string& name) const;
  std::string parts_of(const Option& option) const;
  std::vector<std::size_t> places_for_help() const;
  std::vector<std::string> take_parts(const Option& option, std::vector<std::string> values,
                                      Origin origin);
  bool has_what_it_needs(const Option& option) const;
  [[noreturn]] void fail_unknown(const std::string& name) const;
  void declare_common();
  // Returns the first word that is neither an option nor the value of one.
  std::string stray_word(const std::vector<std::string>& words) const;
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
  std::vector<std::function<void(const Setter&)>> presets_;  // settings by the choices' values
  std::function<void(const Setter&)> implied_;
  std::vector<std::function<void(const Cli&)>> checks_;
  std::function<std::string()> checked_report_;
  bool help_ = false, help_json_ = false, version_ = false, check_args_ = false;
  std::string config_;
  LogLevel log_level_ = LogLevel::kInfo;
};

}  // namespace retina
