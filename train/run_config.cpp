#include "train/run_config.h"

#include <set>

#include "shared/base/error.h"
#include "train/options.h"

namespace retina {
namespace {

constexpr const char* kTrainKey = "train_fingerprint";

}  // namespace

std::string fixed_options_json(const RunConfig& config) {
  JsonWriter json;
  json.begin_object().field(kTrainKey, config.train_fingerprint);
  if (!config.init_fingerprint.empty()) json.field(kInitKey, config.init_fingerprint);
  for (const auto& option : config.options) {
    if (!may_change(option.name)) json.key(option.name).raw(option.json);
  }
  return json.end_object().text();
}

FixedOptions fixed_options(const JsonView& object) {
  FixedOptions values;
  for (const auto& member : object.raw().GetObject()) {
    if (may_change(member.name.GetString())) continue;
    rapidjson::StringBuffer buffer;
    rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
    member.value.Accept(writer);
    values[member.name.GetString()] = buffer.GetString();
  }
  return values;
}

FixedOptions fixed_options(const RunConfig& config) {
  const JsonFile json = JsonFile::parse(fixed_options_json(config), "options");
  return fixed_options(json.root());
}

FixedOptions fixed_options_of_checkpoint(const std::string& config_json,
                                         const std::string& trainer_json, const std::string& name) {
  const JsonFile config = JsonFile::parse(config_json, name);
  const JsonFile trainer = JsonFile::parse(trainer_json, name);
  FixedOptions values = fixed_options(config.root().at("train"));
  JsonWriter fingerprint;
  fingerprint.value(trainer.root().at(kTrainKey).as_string());
  values[kTrainKey] = fingerprint.text();
  return values;
}

std::string differences(const FixedOptions& before, const FixedOptions& now) {
  std::set<std::string> names;
  for (const auto& [name, value] : before) names.insert(name);
  for (const auto& [name, value] : now) names.insert(name);
  std::string text;
  for (const auto& name : names) {
    const auto a = before.find(name), b = now.find(name);
    const std::string old_value = a == before.end() ? "unset" : a->second;
    const std::string new_value = b == now.end() ? "unset" : b->second;
    if (old_value == new_value) continue;
    text += cat(text.empty() ? "" : ", ", name, " (was ", old_value, ", now ", new_value, ")");
  }
  return text;
}

}  // namespace retina
