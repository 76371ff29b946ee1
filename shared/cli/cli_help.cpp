// The table of options as a page and as JSON.
#include <sstream>

#include "shared/base/json.h"
#include "shared/cli/cli.h"

namespace retina {

std::string OptionRules::key_of_part(const std::string& name) const {
  const std::string prefix = part_of + "-";
  return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
}

// Returns the places of the options in the order of their declaration, each part behind its option.
std::vector<std::size_t> Cli::places_for_help() const {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < options_.size(); ++i) {
    if (!options_[i].rules.part_of.empty()) continue;
    places.push_back(i);
    for (std::size_t part = 0; part < options_.size(); ++part) {
      if (options_[part].rules.part_of == options_[i].name) places.push_back(part);
    }
  }
  return places;
}

std::string Cli::help_text() const {
  constexpr std::size_t kColumn = 34, kWidth = 100;
  std::string text = cat(program_, ": ", summary_, "\n\nusage:\n");
  std::istringstream usage(usage_);
  for (std::string line; std::getline(usage, line);) text += cat("  ", line, "\n");
  std::string group;
  for (const std::size_t i : places_for_help()) {
    const Option& option = options_[i];
    if (option.rules.file_only) continue;
    if (option.group != group && option.rules.part_of.empty())
      text += cat("\n", group = option.group, ":\n");
    std::string line = cat("  --", option.name, option.is_flag ? "" : " " + option.value_name);
    if (!option.rules.part_of.empty()) {
      line = cat("    ,", option.rules.key_of_part(option.name), "=", option.value_name);
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

std::string Cli::help_json() const {
  JsonWriter json;
  json.begin_object().field("program", program_).field("summary", summary_);
  json.key("options").begin_array();
  for (const std::size_t i : places_for_help()) {
    const Option& option = options_[i];
    const OptionRules& rules = option.rules;
    json.begin_object().field("name", option.name).field("group", option.group);
    json.field("help", option.help);
    const auto text = [&](const char* key, const std::string& value) {
      if (!value.empty()) json.field(key, value);
    };
    text("value", option.is_flag ? "" : option.value_name);
    text("default", option_texts_[i]);
    const auto bound = [&](const char* key, const std::optional<double>& value) {
      if (value) json.field(key, *value);
    };
    bound("least", rules.least);
    bound("above", rules.above);
    bound("most", rules.most);
    bound("below", rules.below);
    text("needs", rules.needs);
    text("part_of", rules.part_of);
    text("other_names", rules.foreign);
    const auto yes = [&](const char* key, bool value) {
      if (value) json.field(key, value);
    };
    yes("config_only", rules.file_only);
    yes("repeats", option.repeats);
    yes("may_change", rules.may_change);
    if (!mode_names_.empty()) {
      json.key("modes").begin_array();
      for (std::size_t bit = 0; bit < mode_names_.size(); ++bit) {
        if ((rules.modes >> bit & 1) != 0) json.value(mode_names_[bit]);
      }
      json.end_array();
    }
    json.end_object();
  }
  return json.end_array().end_object().text() + "\n";
}

}  // namespace retina
