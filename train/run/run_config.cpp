#include "train/run/run_config.h"

#include <utility>

#include "shared/base/error.h"
#include "train/run/run_state.h"

namespace retina {
namespace {

// As JSON, without spaces.
std::string text_of(const rapidjson::Value& value) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
  value.Accept(writer);
  return buffer.GetString();
}

std::string option_text(const JsonView& value) {
  if (value.raw().IsString()) return value.as_string();
  if (!value.raw().IsArray()) return text_of(value.raw());
  std::string text;
  for (std::size_t i = 0; i < value.size(); ++i) {
    text += cat(i == 0 ? "" : ",", option_text(value.at(i)));
  }
  return text;
}

}  // namespace

bool names_weights(const std::string& init) {
  return !init.empty() && init != "none";
}

std::string validation_identity(const std::string& fingerprint, std::int64_t images,
                                std::size_t image_count) {
  const bool all = images == 0 || images >= static_cast<std::int64_t>(image_count);
  return all ? fingerprint : cat(fingerprint, ", first ", images, " images");
}

std::string fixed_options_json(const RunConfig& config) {
  JsonWriter json;
  json.begin_object().field(kTrainKey, config.train_fingerprint);
  if (!config.init_fingerprint.empty()) json.field(kInitKey, config.init_fingerprint);
  if (!config.validation_fingerprint.empty()) {
    json.field(kValidationKey, config.validation_fingerprint);
  }
  for (const auto& option : config.options) {
    if (!option.may_change) json.key(option.name).raw(option.json);
  }
  return json.end_object().text();
}

OptionTexts option_texts(const JsonView& options) {
  OptionTexts texts;
  for (const auto& member : options.raw().GetObject()) {
    const JsonView value = options.at(member.name.GetString());
    if (!value.raw().IsNull()) texts[member.name.GetString()] = option_text(value);
  }
  return texts;
}

FixedOptions fixed_options(const JsonView& object) {
  FixedOptions values;
  for (const auto& member : object.raw().GetObject()) {
    values[member.name.GetString()] = text_of(member.value);
  }
  return values;
}

FixedOptions fixed_options(const RunConfig& config) {
  const JsonFile json = JsonFile::parse(fixed_options_json(config), "options");
  return fixed_options(json.root());
}

FixedOptions fixed_options_of_checkpoint(const std::string& config_json,
                                         const std::string& trainer_json, const RunConfig& now,
                                         const std::string& name) {
  const JsonFile config = JsonFile::parse(config_json, name);
  const RunState state = RunState::parse(trainer_json, name);
  FixedOptions values;
  const JsonView all = config.root().at("train");
  for (const EffectiveOption& option : now.options) {
    if (!option.may_change) values[option.name] = text_of(all.at(option.name.c_str()).raw());
  }
  const auto add = [&](const char* key, const std::string& fingerprint) {
    JsonWriter json;
    json.value(fingerprint);
    values[key] = json.text();
  };
  add(kTrainKey, state.facts.train_fingerprint);
  if (!state.facts.validation_fingerprint.empty())
    add(kValidationKey, state.facts.validation_fingerprint);
  return values;
}

std::string changed_options(FixedOptions before, FixedOptions now) {
  const auto is_in = [](const FixedOptions& options, const char* name) {
    return options.count(name) != 0 && options.at(name) != "null";
  };
  for (const char* name : {kValidationKey, "norm"}) {
    if (is_in(before, name) && is_in(now, name)) continue;
    before.erase(name);
    now.erase(name);
  }
  // In words: what differs is the data behind an option, whose path may be the same.
  static constexpr std::pair<const char*, const char*> kWords[] = {
      {kTrainKey, "the contents of --train"},
      {kInitKey, "the contents of --init"},
      {kValidationKey, "the contents of --validation, or --validation-images"}};
  for (FixedOptions* options : {&before, &now}) {
    for (const auto& [key, words] : kWords) {
      auto value = options->extract(key);
      if (value.empty()) continue;
      value.key() = words;
      options->insert(std::move(value));
    }
  }
  return differences(before, now);
}

}  // namespace retina
